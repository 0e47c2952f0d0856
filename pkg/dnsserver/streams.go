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
	stopped bool               // after stopReading
}

// streamState is the state of a connection.
type streamState struct {
	client  netip.Addr
	pending int       // queries whose reply is not written yet
	active  time.Time // time of the last query or reply, or of add if there was no query
}

func newStreams(limit, clientLimit int) *streams {
	return &streams{limit: limit, clientLimit: clientLimit, open: map[net.Conn]*streamState{}, clients: map[netip.Addr]int{}}
}

// add adds a connection. If the client has clientLimit connections, add first closes an idle one
// of the client. If there are limit connections, it first closes an idle one of any client: its
// client connects again when it has a query (RFC 7766 section 6.2.3). add returns false if no
// such connection is idle, or the server is shutting down.
func (s *streams) add(c net.Conn, client netip.Addr) bool {
	client = clientKey(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	anyClient := func(*streamState) bool { return true }
	sameClient := func(state *streamState) bool { return state.client == client }
	switch {
	case s.stopped,
		s.clients[client] >= s.clientLimit && !s.closeIdleLocked(sameClient),
		len(s.open) >= s.limit && !s.closeIdleLocked(anyClient):
		return false
	}
	s.open[c] = &streamState{client: client, active: time.Now()}
	s.clients[client]++
	return true
}

// closeIdleLocked closes one of the connections that match and have no pending query. It prefers
// connections of the client with the most connections, and of these the one that has been idle
// for the longest time. It reports whether it has closed a connection.
func (s *streams) closeIdleLocked(matches func(*streamState) bool) bool {
	var idle net.Conn
	var best *streamState // of idle
	for c, state := range s.open {
		if state.pending > 0 || !matches(state) {
			continue
		}
		if best == nil || s.clients[state.client] > s.clients[best.client] ||
			s.clients[state.client] == s.clients[best.client] && state.active.Before(best.active) {
			idle, best = c, state
		}
	}
	if idle == nil {
		return false
	}
	s.removeLocked(idle)
	idle.Close()
	return true
}

// remove removes a connection. It is a no-op if add has closed the connection.
func (s *streams) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

func (s *streams) removeLocked(c net.Conn) {
	state, ok := s.open[c]
	if !ok {
		return
	}
	delete(s.open, c)
	if s.clients[state.client]--; s.clients[state.client] == 0 {
		delete(s.clients, state.client)
	}
}

// recordQuery records that a query has arrived through c.
func (s *streams) recordQuery(c net.Conn) {
	s.update(c, func(state *streamState) { state.pending++; state.active = time.Now() })
}

// recordAnswer records the time at which the answer to a query is available. It must be called
// before the reply is written. After the write the client may have used another connection already,
// and this connection would wrongly have the later time.
func (s *streams) recordAnswer(c net.Conn) {
	s.update(c, func(state *streamState) { state.active = time.Now() })
}

// recordWrite records that the reply to a query was written, or that the write failed. Without
// other pending queries the connection is idle.
func (s *streams) recordWrite(c net.Conn) { s.update(c, func(state *streamState) { state.pending-- }) }

// update changes the state of a connection. It is a no-op if add has closed the connection.
func (s *streams) update(c net.Conn, change func(*streamState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.open[c]; ok {
		change(state)
	}
}

// stopReading ends all reads, now and later, except those of a message whose first octet was read:
// these end within messageTimeout. Replies can still be sent.
func (s *streams) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for c := range s.open {
		c.SetReadDeadline(time.Unix(1, 0))
	}
}

// hasStopped reports whether stopReading was called.
func (s *streams) hasStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// close closes all connections.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}
