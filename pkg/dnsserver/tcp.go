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
	// streamQueries is how many queries of one connection may wait for other servers.
	streamQueries = 64

	// streamIdle is how long a connection may be idle between two queries.
	streamIdle = 10 * time.Second

	// streamMessage is how long one message may take, in either direction.
	streamMessage = 5 * time.Second
)

// serveTCP answers the queries of connections to l until its deadline passes, and waits for
// the connections to end.
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
		case err != nil: // most likely out of file descriptors
			time.Sleep(100 * time.Millisecond)
			continue
		case !all.add(c, remote(c)):
			c.Close()
			continue
		}
		serving.Go(func() {
			defer all.remove(c)
			defer c.Close()
			s.serveStream(ctx, c, all)
		})
	}
}

// stream is one connection.
type stream struct {
	conn    net.Conn
	writing sync.Mutex
	waiting semaphore // queries that wait for other servers
}

// serveStream answers the queries of one connection, each as soon as its answer is
// available (RFC 7766 section 6.2.1.1).
func (s *Server) serveStream(ctx context.Context, c net.Conn, all *streams) {
	st := &stream{conn: c, waiting: make(semaphore, streamQueries)}
	var pending sync.WaitGroup
	defer pending.Wait()
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
		all.begin(c)
		q := &query{via: overTCP, client: client, received: time.Now()}
		reply, wait := s.handle(ctx, q, packet, nil)
		if wait == nil {
			s.metrics.observeReply(q, reply)
			all.answered(c)
			st.write(reply.wire)
			all.written(c)
			continue
		}
		st.waiting.acquire()
		s.limits.streamed.acquire()
		pending.Add(1)
		s.start(ctx, q, wait, func(wire []byte) {
			defer pending.Done()
			defer all.written(c)
			defer st.waiting.release()
			defer s.limits.streamed.release()
			all.answered(c)
			st.write(wire)
		})
	}
}

// remote returns the address of the client.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// readMessage reads the length of a message, and the message. After the first octet, the
// rest must arrive within streamMessage. A message longer than maxQuery is an error.
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

var errTooLong = errors.New("message is longer than a query can be")

// write sends a message, unless it is nil. A connection that does not accept it in time is
// closed.
func (st *stream) write(message []byte) {
	if message == nil {
		return
	}
	st.writing.Lock()
	defer st.writing.Unlock()
	st.conn.SetWriteDeadline(time.Now().Add(streamMessage))
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(message)), uint16(len(message)))
	if _, err := st.conn.Write(append(framed, message...)); err != nil {
		st.conn.Close()
	}
}
