// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/semaphore"
)

// exchangeStream sends a query over TCP or TLS. The server may close a reused connection at any moment, which is not
// a failure: the query is sent once more, over a new connection (RFC 7766 section 6.2.4).
func (c *Client) exchangeStream(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	for again := true; ; again = false {
		conn, reused, err := c.acquireConn(s)
		if err != nil {
			return nil, err
		}
		m, err := conn.exchange(ctx, q, wire)
		switch {
		case err != nil && again && reused && ctx.Err() == nil && !errors.Is(err, ErrMalformed):
		case err != nil:
			return nil, err
		case m.Truncated:
			return nil, errors.New("reply over TCP is truncated")
		default:
			return m, nil
		}
	}
}

// acquireConn returns the newest connection to s, or a new one if that has maxConnUsers. The caller
// must call its exchange. An older connection is closed when it is idle.
func (c *Client) acquireConn(s *server) (conn *streamConn, reused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.acquire() {
		return s.conn, true, nil
	}
	conn = newStreamConn(c.dialer(s.Server), c.cfg.IdleTimeout, c.room)
	conn.acquire()
	if !c.start(conn.run, conn.drain) {
		return nil, false, errStopped
	}
	s.conn = conn
	return conn, false, nil
}

// dialer returns a function that connects to a server.
func (c *Client) dialer(to Server) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
		defer cancel()
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", to.Addr.String())
		if err != nil || !to.TLS {
			return conn, err
		}
		name := to.Name
		if name == "" {
			name = to.Addr.Addr().WithZone("").String()
		}
		secure := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: c.cfg.RootCAs, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
}

// maxConnUsers is the largest number of queries on a connection. A server may read no further query while so many
// wait for their replies, as the cluster DNS does: queries for names that take long would then delay all others.
const maxConnUsers = 64

// Long replies come over TCP alone. A client may ask for thousands of them at a time, and each takes up to 300 kB when it
// is parsed. So a reply longer than longReply octets is read only when all those that were read, and whose queries have
// not yet taken them, have at most maxLong octets together.
const (
	longReply = 4 << 10
	maxLong   = 2 << 20
)

// errConnClosed is the error of queries on a connection that closeIfSilentSince has closed.
var errConnClosed = errors.New("connection closed")

// streamConn is a connection over TCP or TLS that carries many queries at a time (RFC
// 7766 section 6.2.1.1). The goroutine in run reads, the callers of exchange write.
type streamConn struct {
	dial        func(context.Context) (net.Conn, error)
	idleTimeout time.Duration
	room        *semaphore.Weighted // for long replies, see maxLong

	ready  chan struct{} // closed when conn is usable
	closed chan struct{} // closed at the end
	conn   net.Conn      // valid after ready
	err    error         // reason of the end, valid after closed

	writeMu sync.Mutex

	mu        sync.Mutex
	users     int  // see acquire
	draining  bool // closed when users drops to zero
	isClosed  bool
	cancel    context.CancelFunc // of run; nil before it
	pending   map[uint16]*sentQuery
	lastReply time.Time
}

// sentQuery is a query that was sent over a socket or a connection.
type sentQuery struct {
	id    uint16         // unique there
	query *query         // nil: its caller has left
	reply chan delivered // capacity one
	long  int64          // the octets of the reply if it is a long one; guarded by streamConn.mu
}

// delivered is a reply, or the error of its content.
type delivered struct {
	msg *dns.Msg
	err error
}

// deliver passes on a reply, or its error. It reports false for a second one, which is dropped.
func (s *sentQuery) deliver(m *dns.Msg, err error) bool {
	select {
	case s.reply <- delivered{m, err}:
		return true
	default:
		return false
	}
}

func newStreamConn(dial func(context.Context) (net.Conn, error), idleTimeout time.Duration, room *semaphore.Weighted) *streamConn {
	return &streamConn{
		dial: dial, idleTimeout: idleTimeout, room: room,
		ready: make(chan struct{}), closed: make(chan struct{}), pending: map[uint16]*sentQuery{},
	}
}

// acquire makes the caller a user of the connection, until exchange ends. It reports false if
// the connection is closed or about to be, or has maxConnUsers.
func (c *streamConn) acquire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed || c.draining || c.users >= maxConnUsers {
		return false
	}
	c.users++
	return true
}

func (c *streamConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.draining && c.users == 0 {
		c.closeLocked(errStopped)
	}
}

// drain closes the connection as soon as it has no users.
func (c *streamConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	if c.users == 0 {
		c.closeLocked(errStopped)
	}
}

// run dials and reads replies until the server closes the connection, it is idle for
// too long, or it is closed or drained.
func (c *streamConn) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.mu.Lock()
	c.cancel = cancel
	isClosed := c.isClosed
	c.mu.Unlock()
	if isClosed {
		return
	}
	conn, err := c.dial(ctx)
	if err != nil {
		c.close(err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c.conn = conn
	close(c.ready)
	c.close(c.read(ctx, conn))
}

func (c *streamConn) read(ctx context.Context, conn net.Conn) error {
	r := bufio.NewReader(conn)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(c.idleTimeout)); err != nil {
			return err
		}
		var length [2]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
		if err := c.readReply(ctx, r, binary.BigEndian.Uint16(length[:])); err != nil {
			return err
		}
	}
}

// readReply reads and delivers a reply of n octets.
func (c *streamConn) readReply(ctx context.Context, r io.Reader, n uint16) error {
	long := int64(0)
	if n > longReply {
		long = int64(n)
		if err := c.room.Acquire(ctx, long); err != nil {
			return err
		}
	}
	isTaken := false
	defer func() {
		if !isTaken {
			c.room.Release(long)
		}
	}()
	buf := make([]byte, n)
	if _, err := io.ReadFull(r, buf); err != nil {
		return err
	}
	m, err := Unpack(buf)
	if !m.Response || m.Opcode != dns.OpcodeQuery {
		return errNotReply
	}
	isTaken = c.deliver(m, err, long)
	return nil
}

// errNotReply is returned for octets whose header is not that of a reply. The length before
// them was wrong, and where the next message begins is unknown.
var errNotReply = errors.New("not a reply: the length of a message was wrong")

// deliver passes a reply, or the error of its content, to the query, which releases the octets of a long one. It reports
// whether there is a query. The query has its ID until removePending, so that no other one gets the same ID and is
// removed in its place.
func (c *streamConn) deliver(m *dns.Msg, err error, long int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastReply = time.Now()
	p, ok := c.pending[m.Id]
	if !ok || !p.query.matches(m) {
		return false
	}
	if err != nil {
		m = nil
	}
	isFirst := p.deliver(m, err)
	if isFirst {
		p.long = long
	}
	return isFirst
}

// close ends the connection; all pending queries fail with reason. The first reason counts.
func (c *streamConn) close(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(reason)
}

// closeLocked is close. c.mu must be held.
func (c *streamConn) closeLocked(reason error) {
	if c.isClosed {
		return
	}
	c.isClosed, c.err = true, reason
	close(c.closed)
	if c.cancel != nil {
		c.cancel()
	}
}

// exchange sends a query and waits for its reply. The caller is a user until then.
func (c *streamConn) exchange(ctx context.Context, q *query, wire []byte) (*dns.Msg, error) {
	defer c.release()
	select {
	case <-c.ready:
	case <-c.closed:
		return nil, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connecting: %w", ctx.Err())
	}
	p := c.addPending(q)
	defer c.removePending(p)
	begin := time.Now()
	if err := c.write(ctx, p.id, wire); err != nil {
		return nil, err
	}
	select {
	case d := <-p.reply:
		return d.msg, d.err
	case <-c.closed:
		select {
		case d := <-p.reply: // received just before the end
			return d.msg, d.err
		default:
			return nil, c.err
		}
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), errSilent) { // not because the callers have left
			c.closeIfSilentSince(begin)
		}
		return nil, fmt.Errorf("no reply over the connection: %w", ctx.Err())
	}
}

// addPending adds a query with an ID that no other one has. There are few pending
// queries compared with IDs, so that the loop is short.
func (c *streamConn) addPending(q *query) *sentQuery {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &sentQuery{id: randomID(), query: q, reply: make(chan delivered, 1)}
	for c.pending[p.id] != nil {
		p.id = randomID()
	}
	c.pending[p.id] = p
	return p
}

func (c *streamConn) removePending(p *sentQuery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, p.id)
	c.room.Release(p.long)
}

// write sends a message. It closes the connection if that fails: a part of the message may have been
// sent. It keeps the connection if ctx ends while it waits for other writers.
func (c *streamConn) write(ctx context.Context, id uint16, wire []byte) (err error) {
	out := slices.Concat(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire)
	binary.BigEndian.PutUint16(out[2:], id)
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("waiting to send: %w", ctx.Err())
	}
	defer func() {
		if err != nil {
			c.close(err)
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(c.idleTimeout)); err != nil {
		return err
	}
	_, err = c.conn.Write(out)
	return err
}

// closeIfSilentSince closes the connection if no reply at all has arrived since begin:
// the other end may be gone without closing it, and the next query needs a new one.
func (c *streamConn) closeIfSilentSince(begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastReply.Before(begin) {
		c.closeLocked(errConnClosed)
	}
}
