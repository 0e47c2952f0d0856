// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

const (
	parallel = 64              // questions at the same time: for some CoreDNS sends no reply
	patience = 3 * time.Second // the wait for a reply: long enough for a busy machine
	attempts = 2               // the loopback interface drops datagrams too when buffers are full
)

// All sends all questions to server and returns the replies in their order, nil where
// there is none. A truncated reply is requested again over TCP, as clients do; cut is
// the number of those.
func All(ctx context.Context, server string, questions []Question) (replies []*dns.Msg, cut int, err error) {
	replies = make([]*dns.Msg, len(questions))
	var truncated, next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range parallel {
		group.Go(func() error {
			client, err := Dial(server)
			if err != nil {
				return err
			}
			defer client.Close()
			for i := next.Add(1) - 1; i < int64(len(questions)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if replies[i], err = client.askWhole(questions[i], &truncated); err != nil {
					return fmt.Errorf("ask %s %v: %w", server, questions[i], err)
				}
			}
			return ctx.Err()
		})
	}
	err = group.Wait()
	return replies, int(truncated.Load()), err
}

// askWhole asks a question, and again over TCP if the reply is truncated.
func (c *Client) askWhole(q Question, truncated *atomic.Int64) (*dns.Msg, error) {
	m, err := c.Ask(q)
	if err != nil || m == nil || !m.Truncated {
		return m, err
	}
	truncated.Add(1)
	return overTCP(c.server, q)
}

// Client sends questions to one server, one at a time.
type Client struct {
	server string
	conn   net.Conn
}

// Dial returns a client of server, an address with a port.
func Dial(server string) (*Client, error) {
	conn, err := net.Dial("udp", server)
	if err != nil {
		return nil, err
	}
	return &Client{server, conn}, nil
}

// Close closes the client's socket.
func (c *Client) Close() error { return c.conn.Close() }

// Ask asks one question and returns nil when no reply comes.
func (c *Client) Ask(q Question) (*dns.Msg, error) {
	if q.TCP {
		return overTCP(c.server, q)
	}
	for range attempts {
		query := q.message()
		wire, err := query.Pack()
		if err != nil {
			return nil, err
		}
		if _, err := c.conn.Write(wire); err != nil {
			return nil, err
		}
		m, err := await(c.conn, query)
		if m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// One is Dial, Ask and Close.
func One(server string, q Question) (*dns.Msg, error) {
	c, err := Dial(server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Ask(q)
}

// await reads until the reply to query arrives or patience ends.
func await(conn net.Conn, query *dns.Msg) (*dns.Msg, error) {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	buffer := make([]byte, dns.MaxMsgSize)
	for {
		n, err := conn.Read(buffer)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		limit := dns.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			limit = int(opt.UDPSize())
		}
		if n > limit {
			return nil, fmt.Errorf("a reply of %d bytes, the client accepts %d", n, limit)
		}
		m := new(dns.Msg)
		if err := m.Unpack(buffer[:n]); err != nil {
			return nil, err
		}
		if m.Id == query.Id { // else a late reply
			return m, check(query, m)
		}
	}
}

func overTCP(server string, q Question) (*dns.Msg, error) {
	query := q.message()
	client := dns.Client{Net: "tcp", Timeout: patience}
	m, _, err := client.Exchange(query, server)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m, check(query, m)
}

func (q Question) message() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	if q.Payload > 0 {
		m.SetEdns0(q.Payload, false)
	}
	return m
}

// check returns an error if m replies to another query, or has an OPT record and the
// query has none, or the reverse (RFC 6891 section 7).
func check(query, m *dns.Msg) error {
	switch {
	case !m.Response || len(m.Question) != 1 || m.Question[0] != query.Question[0]:
		return fmt.Errorf("reply to another query: %v", m)
	case (m.IsEdns0() != nil) != (query.IsEdns0() != nil):
		return fmt.Errorf("EDNS in only one of query and reply: %v", m)
	}
	return nil
}
