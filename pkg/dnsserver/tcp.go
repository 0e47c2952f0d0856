// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Limits of a TCP connection (RFC 7766 section 6.2).
const (
	// idleTimeout is how long a connection may be idle between two queries.
	idleTimeout = 10 * time.Second

	// messageTimeout is how long reading the rest of a message may take after its first
	// octet, how long writing a reply may take, and how long a query or a reply may wait for
	// units of a budget.
	messageTimeout = 5 * time.Second

	// sendBufferTCP and receiveBufferTCP are the sizes of the kernel's buffers for a connection,
	// in octets. The kernel uses half of a buffer for its own data. The memory of these buffers
	// counts for the limit of the pod, not for a budget of this package, and the kernel's
	// defaults are megabytes. A connection whose client does not read takes 33 to 48 kB (skmem
	// of ss -tm, Linux 6), because the kernel exceeds sendBufferTCP by a packet. With 128 kB it
	// takes 133 to 145 kB. A reply that does not fit into sendBufferTCP stays in the octet budget
	// until the client has read enough of it. 100 queries fit into receiveBufferTCP.
	sendBufferTCP    = 32 << 10
	receiveBufferTCP = 32 << 10

	// acceptErrorPause is the pause after a connection could not be accepted, most likely
	// because the process is out of file descriptors. The connection stays in the kernel's
	// queue. A log message appears once in acceptErrorInterval.
	acceptErrorPause    = 100 * time.Millisecond
	acceptErrorInterval = time.Minute
)

// serveTCP answers the queries of connections to l until its deadline passes, and waits for
// the connections to end.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener, conns *streams) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	var loggedAt time.Time // the last log message about a failure of Accept
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.streamLimits.acceptErrors.Inc()
			if now := time.Now(); now.Sub(loggedAt) >= acceptErrorInterval {
				loggedAt = now
				s.log.Warn("cannot accept TCP connection, retrying: raise the limit of open files if it is exhausted",
					"listen", l.Addr(), "error", err)
			}
			time.Sleep(acceptErrorPause)
			continue
		case !conns.add(c, remoteAddr(c)):
			s.streamLimits.closed[closedConnections].Inc()
			c.Close()
			continue
		}
		setBuffers(c.(*net.TCPConn))
		s.streamLimits.connections.Inc()
		serving.Go(func() {
			defer s.streamLimits.connections.Dec()
			defer conns.remove(c)
			defer c.Close()
			s.serveStream(ctx, c, conns)
		})
	}
}

// setBuffers sets the sizes of the kernel's buffers, best effort. The kernel doubles the
// arguments (socket(7)).
func setBuffers(c *net.TCPConn) {
	_ = c.SetWriteBuffer(sendBufferTCP / 2)
	_ = c.SetReadBuffer(receiveBufferTCP / 2)
}

// stream is one connection.
type stream struct {
	server  *Server
	conn    net.Conn
	client  netip.Addr
	queries semaphore // one unit for each query that admit has admitted and whose reply is not yet written
	writing semaphore // one unit: held while a reply is written
	broken  bool      // guarded by writing: the connection is closed, and replies are dropped
}

// serveStream answers the queries of one connection, each as soon as its answer is
// available (RFC 7766 section 6.2.1.1).
func (s *Server) serveStream(ctx context.Context, c net.Conn, conns *streams) {
	st := &stream{
		server: s, conn: c, client: remoteAddr(c),
		queries: make(semaphore, s.streamLimits.connectionQueries), writing: make(semaphore, 1),
	}
	var pending sync.WaitGroup
	defer pending.Wait()
	for {
		c.SetReadDeadline(time.Now().Add(idleTimeout))
		if conns.hasStopped() { // after SetReadDeadline, which may have replaced the deadline of stopReading
			return
		}
		packet, err := readMessage(c)
		if err != nil {
			return
		}
		conns.recordQuery(c)
		held, ok := st.admit(ctx)
		if !ok { // the connection is closed, and serveTCP removes it with its pending query
			return
		}
		pending.Add(1)
		done := func() {
			held.release()
			st.queries.release()
			conns.recordWrite(c)
			pending.Done()
		}
		q := &query{via: overTCP, client: st.client, received: time.Now()}
		a, wait, isQuery := s.answerPacket(ctx, q, packet)
		switch {
		case !isQuery:
			done()
		case wait == nil:
			conns.recordAnswer(c)
			st.send(ctx, q, a)
			done()
		default:
			s.running.Go(func() {
				defer done()
				defer s.recoverPanic()
				a := wait(ctx)
				conns.recordAnswer(c)
				st.send(ctx, q, a)
			})
		}
	}
}

// answerPacket parses a packet into q and answers it, see Server.answer. If the packet is not a
// query, or answering it panics, isQuery is false.
func (s *Server) answerPacket(ctx context.Context, q *query, packet []byte) (
	a answer, wait func(context.Context) answer, isQuery bool) {
	defer s.recoverPanic()
	if !q.parse(packet) {
		s.metrics.dropped.Inc()
		return answer{}, nil, false
	}
	a, wait = s.answer(ctx, q, nil)
	return a, wait, true
}

// admit waits until the query that was read may be answered: until no reply waits for the socket of
// the connection, the connection has less than Limits.MaxConnectionQueries queries, and the share
// of the client in the budget has room. If it has none for messageTimeout, admit closes the
// connection and returns false.
func (st *stream) admit(ctx context.Context) (grant, bool) {
	st.writing.acquire() // waits for the reply that is written at present
	st.writing.release()
	st.queries.acquire()
	held, ok := acquireWithin(ctx, st.server.streamLimits.queries, st.client, 1)
	if !ok {
		st.queries.release()
		st.countClosed(ctx, closedQueries)
		st.conn.Close()
	}
	return held, ok
}

// send sends the answer to q when the socket is ready. A connection has at most one packed reply.
// Its octets are taken from the octet budget, for the client. If the budget is exhausted, or the
// client does not read the reply in time, send closes the connection.
//
// While send waits it does not hold a large answer, so that its records can be freed. After the
// wait it gets the answer again, most likely from the cache.
func (st *stream) send(ctx context.Context, q *query, a answer) {
	defer st.server.recoverPanic()
	octets, size := st.server.streamLimits.octets, q.estimateLen(&a)
	large, waited := size > maxHeldAnswer, !st.writing.tryAcquire()
	if waited {
		if large {
			a = answer{}
		}
		st.writing.acquire()
	}
	defer st.writing.release()
	if st.broken {
		return
	}
	held, reason := octets.acquire(st.client, size)
	if reason != notRefused {
		waited = true
		if large {
			a = answer{}
		}
		var ok bool
		if held, ok = acquireWithin(ctx, octets, st.client, size); !ok {
			st.close(ctx, closedOctets)
			return
		}
	}
	defer held.release()
	if waited && large {
		var excess grant
		var ok bool
		if a, excess, ok = st.answerAgain(ctx, q, size); !ok {
			st.close(ctx, closedOctets)
			return
		}
		defer excess.release()
	}
	r := q.reply(a, nil)
	held.keep(len(r.wire))
	if r.partial != "" {
		st.server.observePacked(q, r)
	}
	st.server.metrics.observeReply(q, r)
	st.write(r.wire)
}

// answerAgain answers a query again. The client holds size octets of the budget for the reply. If
// the reply may be longer now, answerAgain acquires the excess. ok is false if the budget is
// exhausted.
func (st *stream) answerAgain(ctx context.Context, q *query, size int) (a answer, excess grant, ok bool) {
	again := *q
	again.received = time.Now() // for the remaining TTLs; the metric of the duration uses q.received
	a, wait := st.server.answer(ctx, &again, nil)
	if wait != nil {
		a = wait(ctx)
	}
	n := q.estimateLen(&a) - size
	if n <= 0 {
		return a, grant{}, true
	}
	excess, reason := st.server.streamLimits.octets.acquire(st.client, n)
	return a, excess, reason == notRefused
}

// close closes the connection. The caller holds st.writing.
func (st *stream) close(ctx context.Context, reason closeReason) {
	st.countClosed(ctx, reason)
	st.broken = true
	st.conn.Close()
}

// countClosed counts a connection that is closed at a limit. It is a no-op after ctx has ended: the
// server then closes all connections.
func (st *stream) countClosed(ctx context.Context, reason closeReason) {
	if ctx.Err() == nil {
		st.server.streamLimits.closed[reason].Inc()
	}
}

// remoteAddr returns the address of the client, or the zero Addr if it is unknown.
func remoteAddr(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// readMessage reads the length of a message, and the message. After the first octet, the
// rest must arrive within messageTimeout. A message longer than maxQuery is an error.
func readMessage(c net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(c, length[:1]); err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Now().Add(messageTimeout))
	if _, err := io.ReadFull(c, length[1:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > maxQuery {
		return nil, errTooLong // the connection is closed without a reply
	}
	packet := make([]byte, n)
	_, err := io.ReadFull(c, packet)
	return packet, err
}

var errTooLong = errors.New("message is longer than a query can be")

// write sends a message. A connection that does not accept it in time is closed. The caller
// holds st.writing.
func (st *stream) write(message []byte) {
	st.conn.SetWriteDeadline(time.Now().Add(messageTimeout))
	var length [2]byte
	binary.BigEndian.PutUint16(length[:], uint16(len(message)))
	framed := net.Buffers{length[:], message} // one writev(2)
	if _, err := framed.WriteTo(st.conn); err != nil {
		st.broken = true
		st.conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			st.server.streamLimits.closed[closedSlow].Inc()
		}
	}
}
