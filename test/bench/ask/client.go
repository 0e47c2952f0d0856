// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

const (
	parallel = 16              // questions under way
	patience = 3 * time.Second // for a reply; on the loopback interface it comes at once, unless the machine is busy
	attempts = 2               // a datagram may be dropped there too when buffers are full
)

// All asks server all the questions and returns the replies in their order: nil where
// none came. An answer that did not fit is asked for again over TCP, as clients do, and
// cut tells how many those were.
func All(ctx context.Context, server string, questions []Question) (replies []*dns.Msg, cut int, err error) {
	replies = make([]*dns.Msg, len(questions))
	wasCut := make([]int, parallel)
	group, ctx := errgroup.WithContext(ctx)
	for worker := range parallel {
		group.Go(func() error {
			client, err := Dial(server)
			if err != nil {
				return err
			}
			defer client.Close()
			for i := worker; i < len(questions) && ctx.Err() == nil; i += parallel {
				m, err := client.Ask(questions[i])
				if err != nil {
					return fmt.Errorf("ask %s %v: %w", server, questions[i], err)
				}
				if m != nil && m.Truncated {
					wasCut[worker]++
					if m, err = overTCP(server, questions[i]); err != nil {
						return fmt.Errorf("ask %s %v over TCP: %w", server, questions[i], err)
					}
				}
				replies[i] = m
			}
			return ctx.Err()
		})
	}
	err = group.Wait()
	for _, n := range wasCut {
		cut += n
	}
	return replies, cut, err
}

// Client asks one server, one question at a time.
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

// await reads until the reply to query or the end of patience.
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
			return nil, fmt.Errorf("a reply of %d bytes, to a client who takes %d", n, limit)
		}
		m := new(dns.Msg)
		if err := m.Unpack(buffer[:n]); err != nil {
			return nil, err
		}
		if m.Id == query.Id { // else one that came late
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

// check finds what no reply may be: to something else, or with an OPT record where none
// was asked for.
func check(query, m *dns.Msg) error {
	switch {
	case !m.Response || len(m.Question) != 1 || m.Question[0] != query.Question[0]:
		return fmt.Errorf("a reply to something else: %v", m)
	case (m.IsEdns0() != nil) != (query.IsEdns0() != nil):
		return fmt.Errorf("EDNS in the query or in the reply, and not in both: %v", m)
	}
	return nil
}
