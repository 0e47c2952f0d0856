// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// DefaultMaxConnections is the default of Config.MaxConnections.
const DefaultMaxConnections = 1024

// streams are the open TCP connections.
type streams struct {
	limit int

	mu      sync.Mutex
	open    map[net.Conn]*streamUse
	clients map[netip.Addr]int // connections of each client
	ending  bool
}

// streamUse is what decides whether a connection is closed in favour of another.
type streamUse struct {
	client  netip.Addr
	pending int       // queries without a reply
	last    time.Time // of the last query or reply, or else of the connection
}

func newStreams(limit int) *streams {
	return &streams{limit: limit, open: map[net.Conn]*streamUse{}, clients: map[netip.Addr]int{}}
}

// add reports whether the connection may stay. If there are too many, an idle one is closed,
// whose client connects again when it has a query (RFC 7766 section 6.2.3).
func (s *streams) add(c net.Conn, client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || len(s.open) >= s.limit && !s.closeIdleLocked() {
		return false
	}
	s.open[c] = &streamUse{client: client, last: time.Now()}
	s.clients[client]++
	return true
}

// closeIdleLocked closes, of the connections without a pending query, one of the client that
// has the most connections: the one that was idle for the longest time. It reports whether
// there was one.
func (s *streams) closeIdleLocked() bool {
	var idle net.Conn
	var of *streamUse
	for c, u := range s.open {
		switch {
		case u.pending > 0:
		case of == nil, s.clients[u.client] > s.clients[of.client],
			s.clients[u.client] == s.clients[of.client] && u.last.Before(of.last):
			idle, of = c, u
		}
	}
	if idle == nil {
		return false
	}
	s.removeLocked(idle)
	idle.Close()
	return true
}

func (s *streams) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

func (s *streams) removeLocked(c net.Conn) {
	u, ok := s.open[c]
	if !ok {
		return
	}
	delete(s.open, c)
	if s.clients[u.client]--; s.clients[u.client] == 0 {
		delete(s.clients, u.client)
	}
}

// begin records that a query has arrived through c.
func (s *streams) begin(c net.Conn) {
	s.update(c, func(u *streamUse) { u.pending++; u.last = time.Now() })
}

// answered records that there is a reply to a query, and written that the client has it. The
// connection counts as idle after both, since the former: what a client does after it has
// read the reply comes later.
func (s *streams) answered(c net.Conn) { s.update(c, func(u *streamUse) { u.last = time.Now() }) }
func (s *streams) written(c net.Conn)  { s.update(c, func(u *streamUse) { u.pending-- }) }

func (s *streams) update(c net.Conn, change func(*streamUse)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.open[c]; ok {
		change(u)
	}
}

// finish stops reading queries. Replies can still be sent.
func (s *streams) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.open {
		c.SetReadDeadline(time.Unix(1, 0))
	}
}

func (s *streams) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}
