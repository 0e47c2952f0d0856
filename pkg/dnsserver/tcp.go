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
	"sync/atomic"
	"time"
)

// Limits of a TCP connection (RFC 7766 section 6.2).
const (
	// idleTimeout is how long a connection may be idle between two queries.
	idleTimeout = 10 * time.Second

	// messageTimeout is how long reading the rest of a message may take after its first octet, how long writing a
	// reply may take, and how long a query or a reply may wait for a slot.
	messageTimeout = 5 * time.Second

	// writeLen is the number of octets that are written at once. The kernel takes a whole write
	// while the send buffer has any room: 50 kB of a reply of 64 kB.
	writeLen = 4 << 10

	// maxStreamQueries is the number of queries of a connection that may wait, and as large as the number of queries
	// that a node cache sends over one connection. The next query is read after a reply.
	maxStreamQueries = 64

	// smallReply is the longest reply, in octets, that stays in memory without a slot while its
	// client does not read. All connections together have 2 MiB of them.
	smallReply = 512

	// acceptErrorPause is the pause after a connection could not be accepted, most likely
	// because the process is out of file descriptors. The connection stays in the kernel's
	// queue. A log message appears once in acceptErrorInterval.
	acceptErrorPause    = 100 * time.Millisecond
	acceptErrorInterval = time.Minute
)

// serveTCP answers the queries of connections to l until its deadline passes, and waits for the connections to end.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	limitBuffers(l)
	var loggedAt time.Time // the last log message about a failure of Accept
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.metrics.acceptErrors.Inc()
			if now := time.Now(); now.Sub(loggedAt) >= acceptErrorInterval {
				loggedAt = now
				s.log.Warn("cannot accept TCP connection, retrying: raise the limit of open files if it is exhausted",
					"listen", l.Addr(), "error", err)
			}
			time.Sleep(acceptErrorPause)
			continue
		}
		addr, _ := c.RemoteAddr().(*net.TCPAddr)
		client := addr.AddrPort() // the zero AddrPort for nil
		slot := s.streams.add(c, client.Addr())
		if slot == nil {
			c.Close()
			continue
		}
		serving.Go(func() { newStream(s, c, client, slot).serve(ctx) })
	}
}

// stream is one connection.
type stream struct {
	server  *Server
	conn    net.Conn
	client  netip.Addr
	port    uint16        // of the client
	slot    *slot         // of the connection
	queries chan struct{} // an element for each query whose reply is not yet written
	writing chan struct{} // an element while a reply is written
	broken  bool          // guarded by writing: the connection is closed, and replies are dropped
}

func newStream(s *Server, c net.Conn, client netip.AddrPort, slot *slot) *stream {
	return &stream{server: s, conn: c, client: client.Addr(), port: client.Port(), slot: slot,
		queries: make(chan struct{}, maxStreamQueries), writing: make(chan struct{}, 1)}
}

// serve answers the queries of the connection, each as soon as its answer is available (RFC 7766
// section 6.2.1.1), closes it and removes it from the streams.
func (st *stream) serve(ctx context.Context) {
	s := st.server
	defer s.streams.remove(st.conn, st.slot)
	defer st.conn.Close()
	var pending sync.WaitGroup
	defer pending.Wait()
	for {
		st.conn.SetReadDeadline(time.Now().Add(idleTimeout))
		if s.streams.stopped.Load() { // after SetReadDeadline, which may have replaced the deadline of stopReading
			return
		}
		packet, err := readMessage(st.conn)
		if err != nil {
			return
		}
		st.slot.renew(time.Now())
		st.queries <- struct{}{}
		st.writing <- struct{}{} // no query is answered while a reply waits for the socket
		<-st.writing
		q := &query{via: overTCP, client: st.client, port: st.port, received: time.Now()}
		a, wait, isQuery := s.answerPacket(ctx, q, packet, nil)
		if wait == nil {
			if isQuery {
				st.send(ctx, q, a)
			}
			<-st.queries
			continue
		}
		slot := st.server.streams.queries.admitWithin(ctx, st.client)
		if slot == nil { // wait must be called, which releases the slot of the query
			st.countClosed(ctx, closedQueries)
			st.conn.Close()
		}
		pending.Add(1)
		s.running.Go(func() {
			defer pending.Done()
			defer func() { <-st.queries }()
			defer s.recoverPanic()
			a := wait(ctx)
			if slot != nil {
				defer slot.release()
				st.send(ctx, q, a)
			}
		})
	}
}

// send sends the answer to q when the socket is ready. A connection has at most one packed reply. If there is no slot
// for a long reply, or the client does not read the reply in time, send closes the connection.
//
// While send waits it does not hold a long answer, so that its records can be freed. After the wait
// it gets the answer again, most likely from the cache.
func (st *stream) send(ctx context.Context, q *query, a answer) {
	if a.dropped {
		st.server.metrics.dropped.Inc()
		return
	}
	defer st.server.recoverPanic()
	st.slot.renew(time.Now()) // before the write, after which the client may already use another connection
	isLong := q.estimateLen(&a) > smallReply
	var again bool
	select {
	case st.writing <- struct{}{}:
	default:
		if again = isLong; again {
			a = answer{}
		}
		st.writing <- struct{}{}
	}
	defer func() { <-st.writing }()
	if st.broken {
		return
	}
	if isLong {
		slot := st.server.streams.replies.admit(st.client, kindPlain, time.Now())
		if slot == nil {
			a, again = answer{}, true
			slot = st.server.streams.replies.admitWithin(ctx, st.client)
		}
		if slot == nil {
			st.countClosed(ctx, closedReplies)
			st.broken = true
			st.conn.Close()
			return
		}
		defer slot.release()
		slot.whenReplaced(func() {
			st.countClosed(ctx, closedReplies)
			st.conn.Close()
		})
	}
	if again {
		a = st.answerAgain(ctx, q)
	}
	r := q.reply(a, nil)
	if r.partial != "" {
		st.server.observePacked(q, r)
	}
	st.server.observeReply(q, r)
	st.write(r.wire)
}

// answerAgain answers a query again.
func (st *stream) answerAgain(ctx context.Context, q *query) answer {
	again := *q
	again.received = time.Now() // for the remaining TTLs; the metric of the duration uses q.received
	a, wait := st.server.answer(ctx, &again, nil)
	if wait != nil {
		a = wait(ctx)
	}
	return a
}

// countClosed counts a connection that is closed at a limit. It is a no-op after ctx has ended: the
// server then closes all connections.
func (st *stream) countClosed(ctx context.Context, reason closeReason) {
	if ctx.Err() == nil {
		st.server.metrics.closed[reason].Inc()
	}
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

// write sends a message. A connection that does not accept it in time is closed. The caller holds st.writing.
func (st *stream) write(message []byte) {
	st.conn.SetWriteDeadline(time.Now().Add(messageTimeout))
	var length [2]byte
	binary.BigEndian.PutUint16(length[:], uint16(len(message)))
	first := message[:min(len(message), writeLen)]
	framed := net.Buffers{length[:], first} // one writev(2)
	_, err := framed.WriteTo(st.conn)
	for rest := message[len(first):]; len(rest) > 0 && err == nil; {
		var n int
		n, err = st.conn.Write(rest[:min(len(rest), writeLen)])
		rest = rest[n:]
	}
	if err != nil {
		st.broken = true
		st.conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			st.server.metrics.closed[closedSlow].Inc()
		}
	}
}

// streams are the open TCP connections, and the limiters that their clients share. An idle client
// connects again when it has a query (RFC 7766 section 6.2.3): so a connection is a slot whose age
// is the time since its last query or reply.
type streams struct {
	connections *limiter // open connections
	queries     *limiter // queries that wait for other servers or for the reply before them
	replies     *limiter // replies longer than smallReply that are not read yet
	metrics     *metrics

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	stopped atomic.Bool // after stopReading; written with mu held
}

// closeReason is why the server closed a connection. It is the label of a metric.
type closeReason uint8

const (
	closedConnections closeReason = iota // a new one, because none was free, or one that gave way to another
	closedQueries                        // too many queries wait for a client that does not read
	closedReplies                        // no room for a reply
	closedSlow                           // the client did not read a reply
	numCloseReasons
)

// String returns the reason as a label of metrics.
func (r closeReason) String() string {
	return [...]string{"connections", "queries", "replies", "slow"}[r]
}

// newStreams returns the connections of a server, none, for valid limits. Each of their queries has a goroutine of 11 kB
// until its reply is written: with more of them than wait for other servers, clients that do not read could exceed the
// memory limit of the pod.
func newStreams(limits Limits, m *metrics) *streams {
	return &streams{
		connections: newLimiter(limits.maxConnections()),
		queries:     newLimiter(limits.MaxQueries),
		replies:     newLimiter(limits.maxReplies()),
		metrics:     m,
		open:        map[net.Conn]struct{}{},
	}
}

// add adds a connection, which the caller must remove. It returns nil if there is no slot for it, or
// the server is shutting down.
func (s *streams) add(c net.Conn, client netip.Addr) *slot {
	slot := s.connections.admit(client, kindPlain, time.Now())
	if slot == nil {
		s.metrics.closed[closedConnections].Inc()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped.Load() {
		slot.release()
		return nil
	}
	s.open[c] = struct{}{}
	slot.whenReplaced(func() {
		s.metrics.closed[closedConnections].Inc()
		c.Close()
	})
	return slot
}

// remove removes a connection.
func (s *streams) remove(c net.Conn, slot *slot) {
	slot.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// stopReading ends all reads, now and later, except those of a message whose first octet was read:
// these end within messageTimeout. Replies can still be sent.
func (s *streams) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped.Store(true)
	for c := range s.open {
		c.SetReadDeadline(time.Unix(1, 0))
	}
}

// close closes all connections.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

// limitPoll is the pause between two attempts to take a slot when none is free. At most two goroutines for each
// connection poll, one that reads and one that sends. 1,024 goroutines that poll take 2 % of a core.
const limitPoll = 20 * time.Millisecond

// admitWithin takes a slot. It waits for it for at most messageTimeout, and returns nil if there is none.
func (l *limiter) admitWithin(ctx context.Context, client netip.Addr) *slot {
	for deadline := time.Now().Add(messageTimeout); ; {
		now := time.Now()
		if s := l.admit(client, kindPlain, now); s != nil || !now.Before(deadline) {
			return s
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(limitPoll):
		}
	}
}
