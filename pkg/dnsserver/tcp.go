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

// Limits of TCP (RFC 7766 section 6.2).
const (
	// maxStreams is the number of connections that are kept. For one more, that
	// which has brought no query for the longest time is closed (section 6.2.3).
	maxStreams = 1024

	// streamQueries is how many queries of one connection are answered at once.
	streamQueries = 64

	// streamIdle is how long a connection may be silent between two queries.
	streamIdle = 10 * time.Second

	// streamMessage is how long one message may take, either way.
	streamMessage = 5 * time.Second
)

// streams are the open connections.
type streams struct {
	slots chan struct{} // one for each of their queries, until the client has the reply

	mu     sync.Mutex
	open   map[net.Conn]time.Time // when the last query was there, or the connection
	ending bool
}

func newStreams() *streams {
	return &streams{slots: make(chan struct{}, maxStreamed), open: map[net.Conn]time.Time{}}
}

// add reports whether the connection may stay. Those who open connections to no
// purpose take them from each other, and from clients that come back when they need to.
func (s *streams) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	now := time.Now()
	if len(s.open) >= maxStreams {
		longest, since := c, now
		for other, at := range s.open {
			if !at.After(since) {
				longest, since = other, at
			}
		}
		delete(s.open, longest)
		longest.Close()
	}
	s.open[c] = now
	return true
}

// used notes that a query has come through c.
func (s *streams) used(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[c]; ok {
		s.open[c] = time.Now()
	}
}

func (s *streams) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// finish lets the connections take no further query.
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

// serveTCP answers what comes in through connections to l until its deadline
// passes, and waits for the connections.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener, all *streams) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors, most likely
			time.Sleep(100 * time.Millisecond)
			continue
		case !all.add(c):
			c.Close()
			continue
		}
		serving.Go(func() {
			defer c.Close()
			defer all.remove(c)
			s.serveStream(ctx, c, all)
		})
	}
}

// serveStream answers the queries of one connection, each as soon as its answer is
// there (RFC 7766 section 6.2.1.1).
func (s *Server) serveStream(ctx context.Context, c net.Conn, all *streams) {
	var writing sync.Mutex
	var pending sync.WaitGroup
	defer pending.Wait()
	room := make(chan struct{}, streamQueries)
	client := remote(c)
	for {
		c.SetReadDeadline(time.Now().Add(streamIdle))
		if all.ended() {
			return
		}
		packet, err := readMessage(c)
		if err != nil {
			return
		}
		all.used(c)
		room <- struct{}{}
		all.slots <- struct{}{}
		pending.Add(1)
		s.start(ctx, packet, overTCP, client, func(reply []byte) {
			defer pending.Done()
			writing.Lock()
			writeMessage(c, reply)
			writing.Unlock()
			<-all.slots
			<-room
		})
	}
}

// remote is the address of a connection's other end.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// readMessage reads one message behind its length. Once the first octet is there,
// the rest has streamMessage to come. What is longer than any query is an error.
func readMessage(c net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(c, length[:1]); err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Now().Add(streamMessage))
	if _, err := io.ReadFull(c, length[1:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > maxQuery {
		return nil, errTooLong
	}
	packet := make([]byte, n)
	_, err := io.ReadFull(c, packet)
	return packet, err
}

var errTooLong = errors.New("message is longer than any query")

// writeMessage sends one message, if there is one. A connection that does not take
// it is of no use any more.
func writeMessage(c net.Conn, packet []byte) {
	if packet == nil {
		return
	}
	c.SetWriteDeadline(time.Now().Add(streamMessage))
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(packet)), uint16(len(packet)))
	if _, err := c.Write(append(framed, packet...)); err != nil {
		c.Close()
	}
}
