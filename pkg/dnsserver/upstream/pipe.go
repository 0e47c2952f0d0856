// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// errClosed is why a pipe without another reason is closed.
var errClosed = errors.New("connection closed")

// pipe is a connection over TCP or TLS with many queries on their way (RFC 7766
// section 6.2.1.1). The goroutine in run reads, callers of exchange write.
type pipe struct {
	dial func(context.Context) (net.Conn, error)
	idle time.Duration

	open   chan struct{} // closed when conn can be used
	closed chan struct{} // closed at the end
	conn   net.Conn      // readable after open is closed
	err    error         // why it ended, readable after closed is closed

	writing sync.Mutex // one message at a time

	mu      sync.Mutex
	ended   bool
	cancel  context.CancelFunc // of run; nil before it
	waiting map[uint16]waiter
	heard   time.Time // when the last reply came
}

type waiter struct {
	query *query
	reply chan *dns.Msg // has room for one
}

func newPipe(dial func(context.Context) (net.Conn, error), idle time.Duration) *pipe {
	return &pipe{dial: dial, idle: idle, open: make(chan struct{}), closed: make(chan struct{}), waiting: map[uint16]waiter{}}
}

// run opens the connection and reads from it until it ends, by the other side, by
// idleness, by close or by ctx.
func (p *pipe) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.cancel = cancel
	ended := p.ended
	p.mu.Unlock()
	if ended {
		return
	}
	conn, err := p.dial(ctx)
	if err != nil {
		p.close(err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p.conn = conn
	close(p.open)
	p.close(p.read(conn))
}

func (p *pipe) read(conn net.Conn) error {
	r := bufio.NewReader(conn)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(p.idle)); err != nil {
			return err
		}
		var length [2]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
		buf := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		m, err := unpack(buf)
		if err != nil {
			return fmt.Errorf("what came is not a DNS message: %w", err)
		}
		p.deliver(m)
	}
}

func (p *pipe) deliver(m *dns.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
	if w, ok := p.waiting[m.Id]; ok && w.query.isAnsweredBy(m) {
		delete(p.waiting, m.Id)
		w.reply <- m
	}
}

// close ends the pipe, for a reason that all who wait are given. The first counts.
func (p *pipe) close(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.err = true, reason
		close(p.closed)
		if p.cancel != nil {
			p.cancel()
		}
	}
}

func (p *pipe) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// exchange sends a query and waits for its reply.
func (p *pipe) exchange(ctx context.Context, q *query, wire []byte) (*dns.Msg, error) {
	select {
	case <-p.open:
	case <-p.closed:
		return nil, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connecting: %w", ctx.Err())
	}
	w := waiter{query: q, reply: make(chan *dns.Msg, 1)}
	id := p.enter(w)
	defer p.leave(id)
	asked := time.Now()
	if err := p.write(ctx, id, wire); err != nil {
		p.close(err) // part of the message may be on its way
		return nil, err
	}
	select {
	case m := <-w.reply:
		return m, nil
	case <-p.closed:
		select {
		case m := <-w.reply: // it was the last to come
			return m, nil
		default:
			return nil, p.err
		}
	case <-ctx.Done():
		p.closeIfSilentSince(asked)
		return nil, fmt.Errorf("no answer over the connection: %w", ctx.Err())
	}
}

// enter gives w an ID that nobody else waits for. In-flight queries are few compared
// with the IDs there are.
func (p *pipe) enter(w waiter) uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		id := randomID()
		if _, taken := p.waiting[id]; !taken {
			p.waiting[id] = w
			return id
		}
	}
}

func (p *pipe) leave(id uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

func (p *pipe) write(ctx context.Context, id uint16, wire []byte) error {
	out := slices.Concat(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire)
	binary.BigEndian.PutUint16(out[2:], id)
	p.writing.Lock()
	defer p.writing.Unlock()
	deadline, _ := ctx.Deadline()
	if err := p.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(p.idle)); err != nil {
		return err
	}
	_, err := p.conn.Write(out)
	return err
}

// closeIfSilentSince gives the connection up when nothing at all has come from it.
// It may be dead without a word, and those who come next are better off with another.
func (p *pipe) closeIfSilentSince(asked time.Time) {
	p.mu.Lock()
	silent := p.heard.Before(asked)
	p.mu.Unlock()
	if silent {
		p.close(errClosed)
	}
}
