// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/miekg/dns"
)

// overStream asks over TCP or TLS. A connection that was there before may be closed
// by the other side at any moment, so that its failure means nothing: the query goes
// out once more (RFC 7766 section 6.2.4).
func (c *Client) overStream(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	p, reused, release := c.pipeTo(s)
	m, err := p.exchange(ctx, q, wire)
	release()
	if err != nil && reused && ctx.Err() == nil {
		p, _, release = c.pipeTo(s)
		m, err = p.exchange(ctx, q, wire)
		release()
	}
	if err != nil {
		return nil, err
	}
	if m.Truncated {
		return nil, errors.New("the reply over TCP is truncated")
	}
	return m, nil
}

// pipeTo returns the connection to s, a new one if there is none. While Run runs it
// is its, and stays open for others; otherwise release ends it.
func (c *Client) pipeTo(s *server) (p *pipe, reused bool, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipe != nil && !s.pipe.isClosed() {
		return s.pipe, true, func() {}
	}
	p = newPipe(c.dialer(s.Server), c.cfg.IdleTimeout)
	if c.start(p.run) {
		s.pipe = p
		return p, false, func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.run(context.Background())
	}()
	return p, false, func() {
		p.close(errClosed)
		<-ended
	}
}

// dialer returns what connects to a server.
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
