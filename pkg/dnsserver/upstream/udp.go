// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// udpBuffer has room for replies of servers that exceed udpSize. A reply that
	// fills it may have been cut by the kernel and counts as truncated.
	udpBuffer = 4096
	// maxMismatches is the number of packets to a socket that match no query before its queries are
	// repeated over TCP: an attacker who guesses IDs and ports cannot forge a reply there.
	maxMismatches = 20
	// repeatDelay is how long a query waits before it is sent again. Servers resolve nearly all names in less. While
	// too many queries wait, most give way earlier: the names of a dead domain do not become twice as expensive.
	repeatDelay = 500 * time.Millisecond
)

// errUseTCP is returned if the query must be repeated over TCP.
var errUseTCP = errors.New("reply over UDP is truncated, or packets do not match the query")

// dialUDP returns a socket that is connected to an address.
func dialUDP(ctx context.Context, address string) (*packetConn, error) {
	dialer := net.Dialer{Control: setPathMTU}
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	return newPacketConn(conn.(*net.UDPConn))
}

// exchangeUDP sends a query, and sends it once again after repeatDelay: a packet may have been lost, and all clients that
// ask for the name wait. A search list may take that long. With errUseTCP it may return a truncated reply.
func (c *Client) exchangeUDP(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	socket, sent, err := c.acquireUDP(ctx, s, q)
	if err != nil {
		return nil, err
	}
	defer socket.release(sent)
	out := slices.Clone(wire)
	binary.BigEndian.PutUint16(out, sent.id)
	var again <-chan time.Time
	if !q.hasOptions {
		again = time.After(repeatDelay)
	}
	for {
		if _, err := socket.conn.Write(out); err != nil {
			return nil, err
		}
		select {
		case d := <-sent.reply:
			return d.msg, d.err
		case <-again:
		case <-ctx.Done():
			return nil, fmt.Errorf("no reply over UDP: %w", ctx.Err())
		}
	}
}

// acquireUDP adds a query to the socket of a server, or to a new one if that is used up. The caller must
// release the query.
func (c *Client) acquireUDP(ctx context.Context, s *server, q *query) (*udpSocket, *sentQuery, error) {
	s.udpMu.Lock()
	defer s.udpMu.Unlock()
	if s.udp != nil {
		if sent := s.udp.add(q); sent != nil {
			return s.udp, sent, nil
		}
	}
	conn, err := dialUDP(ctx, s.Addr.String())
	if err != nil {
		return nil, nil, err
	}
	s.udp = newUDPSocket(conn)
	sent := s.udp.add(q)
	if u := s.udp; !c.start(func() { c.readUDP(u) }, u.retire) { // after Run the socket has one query
		u.retire()
		go c.readUDP(u)
	}
	return s.udp, sent, nil
}

// parseReply returns the reply to q in a packet with the ID of q. It returns errUseTCP for a truncated reply,
// with the reply as far as it is readable, ErrMalformed for a malformed one, and
// neither reply nor error for a packet that does not match q. A panic costs the query only.
func (c *Client) parseReply(q *query, packet []byte) (_ *dns.Msg, err error) {
	defer c.recoverPanic(&err)
	if len(packet) == udpBuffer {
		return nil, errUseTCP
	}
	m, err := Unpack(packet)
	switch {
	case !q.matches(m): // or cut before the end of the question
		return nil, nil
	case m.Truncated && err != nil: // cut in the middle of a record
		return nil, errUseTCP
	case m.Truncated:
		return m, errUseTCP
	case err != nil:
		return nil, err
	}
	return m, nil
}

// A socket for each query would cost as much CPU as the rest of the query: it is created, connected,
// polled and closed. A socket for all queries would have a port that an attacker can find out. So the
// kernel picks a random port for a few queries (RFC 5452 section 9.2).
const (
	// maxSocketQueries is the number of queries that are sent from one socket.
	maxSocketQueries = 32
	// socketLifetime is the time after which no query is sent from a socket. A scan of all ports takes
	// a minute, because Linux sends 1,000 ICMP errors a second.
	socketLifetime = 2 * time.Second
)

// udpSocket is a UDP socket that is connected to a server: the kernel drops packets from other
// addresses. The goroutine in readUDP reads.
type udpSocket struct {
	conn *packetConn

	ids [maxSocketQueries]uint16 // different random numbers: a system call for each query would cost 5 % of it

	mu      sync.Mutex
	queries []*sentQuery // all that were sent, so that a late reply is not taken for a forged one
	waiting int          // queries that are not released
	retired bool         // no query is added; closed when no query waits
}

// newUDPSocket returns the socket with the IDs of its queries, which cannot be predicted from earlier ones
// (RFC 5452 section 4.3).
func newUDPSocket(conn *packetConn) *udpSocket {
	u := &udpSocket{conn: conn}
	var random [2 * maxSocketQueries]byte
	rand.Read(random[:]) // never fails
	for i := range u.ids {
		u.ids[i] = binary.BigEndian.Uint16(random[2*i:])
		for slices.Contains(u.ids[:i], u.ids[i]) {
			u.ids[i] = randomID()
		}
	}
	return u
}

// randomID returns an ID that cannot be predicted from earlier ones (RFC 5452 section
// 4.3).
func randomID() uint16 {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}

// add returns a new query, which must be released, or nil if the socket is used up.
func (u *udpSocket) add(q *query) *sentQuery {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired {
		return nil
	}
	sent := &sentQuery{id: u.ids[len(u.queries)], query: q, reply: make(chan delivered, 1)}
	u.queries = append(u.queries, sent)
	u.waiting++
	u.retired = len(u.queries) == maxSocketQueries
	return sent
}

// release is called when the reply is no longer awaited.
func (u *udpSocket) release(sent *sentQuery) {
	u.mu.Lock()
	defer u.mu.Unlock()
	sent.query = nil
	u.waiting--
	u.closeIfUnusedLocked()
}

// retire closes the socket as soon as no query waits.
func (u *udpSocket) retire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
	u.closeIfUnusedLocked()
}

func (u *udpSocket) closeIfUnusedLocked() {
	if u.retired && u.waiting == 0 {
		u.conn.Close() // ends readUDP
	}
}

// readUDP reads replies until the socket is closed or has an error, such as that the port is unreachable.
func (c *Client) readUDP(u *udpSocket) {
	defer u.conn.Close()
	buf := make([]byte, udpBuffer)
	u.conn.SetReadDeadline(time.Now().Add(socketLifetime))
	for mismatches := 0; ; {
		n, err := u.conn.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			u.conn.SetReadDeadline(time.Time{})
			u.retire()
		case err != nil:
			u.fail(err)
			return
		case n < 2 || !c.deliverUDP(u, bytes.Clone(buf[:n])):
			if mismatches++; mismatches >= maxMismatches {
				u.fail(errUseTCP)
			}
		}
	}
}

// deliverUDP passes a packet to the query that it is a reply to. It reports false for packets that match no query.
func (c *Client) deliverUDP(u *udpSocket, packet []byte) bool {
	id := binary.BigEndian.Uint16(packet)
	var sent *sentQuery
	var q *query
	u.mu.Lock()
	if i := slices.IndexFunc(u.queries, func(s *sentQuery) bool { return s.id == id }); i >= 0 {
		sent = u.queries[i]
		q = sent.query
	}
	u.mu.Unlock()
	if q == nil {
		return sent != nil // a late reply
	}
	m, err := c.parseReply(q, packet)
	if m == nil && err == nil {
		return false
	}
	sent.deliver(m, err)
	return true
}

// fail ends all queries of the socket with an error.
func (u *udpSocket) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
	for _, sent := range u.queries {
		sent.deliver(nil, err)
	}
	u.closeIfUnusedLocked()
}
