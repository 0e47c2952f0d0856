// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Defaults of Config.
const (
	// DefaultMaxConnections is the default of Config.MaxConnections.
	DefaultMaxConnections = 1024

	// DefaultMaxClientConnections is the default of Config.MaxClientConnections. A resolver
	// needs one connection (RFC 7766 section 6.2.2). Many pods may share an address behind
	// NAT.
	DefaultMaxClientConnections = 128
)

// streams are the open TCP connections.
type streams struct {
	limit, clientLimit int

	mu      sync.Mutex
	open    map[net.Conn]*streamState
	clients map[netip.Addr]int // connections of each client
	ending  bool
}

// streamState is the state of a connection. It determines which connection add closes.
type streamState struct {
	client  netip.Addr
	pending int       // queries without a reply
	active  time.Time // time of the last query or reply, initially of the connection
}

func newStreams(limit, clientLimit int) *streams {
	return &streams{limit: limit, clientLimit: clientLimit, open: map[net.Conn]*streamState{}, clients: map[netip.Addr]int{}}
}

// add adds a connection. At a limit it closes an idle one, of the same client at the client's
// limit. Its client connects again when it has a query (RFC 7766 section 6.2.3). If no such
// connection is idle, or the server is shutting down, it returns false.
func (s *streams) add(c net.Conn, client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	anyClient := func(*streamState) bool { return true }
	sameClient := func(u *streamState) bool { return u.client == client }
	switch {
	case s.ending,
		s.clients[client] >= s.clientLimit && !s.closeIdleLocked(sameClient),
		len(s.open) >= s.limit && !s.closeIdleLocked(anyClient):
		return false
	}
	s.open[c] = &streamState{client: client, active: time.Now()}
	s.clients[client]++
	return true
}

// closeIdleLocked closes a connection that matches and has no pending query: one of the client
// with the most connections, and among several the one that was idle for the longest time. It
// reports whether there was one.
func (s *streams) closeIdleLocked(matches func(*streamState) bool) bool {
	var idle net.Conn
	var candidate *streamState
	for c, u := range s.open {
		switch {
		case u.pending > 0 || !matches(u):
		case candidate == nil, s.clients[u.client] > s.clients[candidate.client],
			s.clients[u.client] == s.clients[candidate.client] && u.active.Before(candidate.active):
			idle, candidate = c, u
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
	s.update(c, func(u *streamState) { u.pending++; u.active = time.Now() })
}

// answered records that the reply to a query is available, and written that it was written
// to the connection or the write failed. After both the connection is idle. The idle time
// begins at answered: a query that the client sends after it has read the reply is always
// later.
func (s *streams) answered(c net.Conn) { s.update(c, func(u *streamState) { u.active = time.Now() }) }
func (s *streams) written(c net.Conn)  { s.update(c, func(u *streamState) { u.pending-- }) }

func (s *streams) update(c net.Conn, change func(*streamState)) {
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
