// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// crowd is how many packets at once are more than a reader should have to
	// itself.
	crowd = 32

	// maxInline is how many packets of a batch the reader itself answers the plain way, at
	// most: what came after the batch waits for that. The others get a goroutine each, and
	// so does what has to wait for other servers.
	maxInline = 8

	// maxReaders is how many read one socket, at most.
	maxReaders = 8

	// restTime is how long a reader that is kept busy lets packets gather, and
	// rushTime how soon after a batch the next must come for that. A wake-up costs
	// several times what an answer does. At less than 10,000 queries a second nobody
	// waits.
	restTime = 50 * time.Microsecond
	rushTime = 2 * restTime
)

// serveUDP answers what comes in through conn until its read deadline passes. One
// goroutine reads: what has come while it was busy costs one wake-up together, where
// it would cost one each among several sockets. When that is a crowd, others help.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	readers := make([]*reader, min(runtime.GOMAXPROCS(0), maxReaders))
	for i := range readers {
		var err error
		if readers[i], err = newReader(s, conn); err != nil {
			return err
		}
	}
	help, done := make(chan struct{}), make(chan struct{})
	var helping sync.WaitGroup
	for _, r := range readers[1:] {
		helping.Go(func() {
			for {
				select {
				case <-help:
					_ = r.run(ctx, help, crowd) // the first has the same
				case <-done:
					return
				}
			}
		})
	}
	err := readers[0].run(ctx, help, 0)
	close(done)
	helping.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// reader is one of those who read a socket.
type reader struct {
	server *Server
	conn   *net.UDPConn
	batch  *batch
	quick  *quick
	plain  []int // packets of the batch that go the plain way
}

func newReader(s *Server, conn *net.UDPConn) (*reader, error) {
	b, err := newBatch(conn)
	return &reader{server: s, conn: conn, batch: b, quick: newQuick(s)}, err
}

// run answers what comes in until less than least comes at once, or the socket's
// reads end, which is the error. It calls for help when there is a crowd.
func (r *reader) run(ctx context.Context, help chan<- struct{}, least int) error {
	var last time.Time // when a batch was done
	for {
		n, err := r.batch.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			continue // of one packet, such as an ICMP error for an earlier reply
		case n >= crowd:
			select {
			case help <- struct{}{}:
			default: // all are busy
			}
		}
		start := time.Now()
		r.answer(ctx, n, start)
		if n < least {
			return nil
		}
		if n < crowd && start.Sub(last) < rushTime {
			rest(restTime)
		}
		last = time.Now()
	}
}

// answer answers a batch of n packets that came at start: first what the quick way
// answers, then what can be had without waiting for others.
func (r *reader) answer(ctx context.Context, n int, start time.Time) {
	r.plain = r.plain[:0]
	for i := range n {
		packet := r.batch.packet(i)
		result := r.quick.answer(packet, r.batch.room(i), start)
		if result.refresh {
			packet := bytes.Clone(packet)
			r.server.background(ctx, func(ctx context.Context) { r.server.refresh(ctx, packet) })
		}
		switch {
		case result.reply != nil:
			r.batch.reply(i, result.reply)
		case !result.dropped:
			r.plain = append(r.plain, i)
		}
	}
	r.quick.tally.flush(time.Since(start)) // who has the answer finds it counted
	r.batch.send()
	for turn, i := range r.plain {
		reply, done := []byte(nil), false
		if turn < maxInline {
			reply, done = r.server.respond(ctx, r.batch.packet(i), overUDP, r.batch.client(i).Addr(), true)
		}
		switch {
		case !done:
			r.start(ctx, i)
		case reply != nil:
			r.batch.reply(i, append(r.batch.room(i), reply...))
		}
	}
	r.batch.send()
}

// start answers packet i in a goroutine of its own, which may take longer than the batch
// does.
func (r *reader) start(ctx context.Context, i int) {
	client, origin := r.batch.client(i), bytes.Clone(r.batch.origin(i))
	r.server.start(ctx, bytes.Clone(r.batch.packet(i)), overUDP, client.Addr(), func(reply []byte) {
		if reply != nil {
			// A client that cannot be reached will ask again.
			_, _, _ = r.conn.WriteMsgUDPAddrPort(reply, origin, client)
		}
	})
}
