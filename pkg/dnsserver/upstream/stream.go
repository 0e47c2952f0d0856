// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/message"
)

// exchangeStream sends a query over TCP or TLS. The server may close a reused connection
// at any moment, which is not a failure: the query is sent once more, over a new
// connection (RFC 7766 section 6.2.4).
func (c *Client) exchangeStream(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	m, reused, err := c.exchangeConn(ctx, s, q, wire)
	if err != nil && reused && ctx.Err() == nil && !errors.Is(err, message.ErrMalformed) {
		m, _, err = c.exchangeConn(ctx, s, q, wire)
	}
	if err != nil {
		return nil, err
	}
	if m.Truncated {
		return nil, errors.New("reply over TCP is truncated")
	}
	return m, nil
}

// exchangeConn sends a query over the open connection to s, or else over a new one.
func (c *Client) exchangeConn(ctx context.Context, s *server, q *query, wire []byte) (m *dns.Msg, reused bool, err error) {
	conn, reused, err := c.acquireConn(s)
	if err != nil {
		return nil, false, err
	}
	defer conn.release()
	m, err = conn.exchange(ctx, q, wire)
	return m, reused, err
}

// acquireConn returns the newest connection to s, or a new one if that has maxConnUsers. The caller
// must release it. An older connection is closed when it is idle.
func (c *Client) acquireConn(s *server) (conn *streamConn, reused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.acquire() {
		return s.conn, true, nil
	}
	conn = newStreamConn(c.dialer(s.Server), c.cfg.IdleTimeout)
	conn.acquire()
	if err := c.startConn(conn); err != nil {
		return nil, false, err
	}
	s.conn = conn
	return conn, false, nil
}

// dialer returns a function that connects to a server.
func (c *Client) dialer(to Server) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
		defer cancel()
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", to.Addr.String())
		if err != nil || !to.TLS {
			return conn, err
		}
		name := to.Name
		if name == "" {
			name = to.Addr.Addr().WithZone("").String()
		}
		secure := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: c.cfg.RootCAs, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
}
