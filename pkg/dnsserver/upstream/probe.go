// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"
)

const (
	// The pause between two probes of a server that may be down doubles with each failure,
	// from minBackoff to maxBackoff.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// markSilent moves a silent server behind the others until it has replied, so that no further
// query waits for it.
func (c *Client) markSilent(s *server) {
	s.recordSilence()
	c.probeIfDown(s)
}

// probeIfDown probes a server that may be down, in the background until it replies, so that no
// client's query is needed to test the server. It is a no-op while Run is not running.
func (c *Client) probeIfDown(s *server) {
	if s.beginProbes() && !c.goInRun(func(ctx context.Context) { c.probeUntilUp(ctx, s) }) {
		s.endProbes()
	}
}

// beginProbes reports whether the caller is to probe s.
func (s *server) beginProbes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probed || !s.mayBeDownLocked() {
		return false
	}
	s.probed = true
	return true
}

// endProbes records that the probes of s have ended.
func (s *server) endProbes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = false
}

// endProbesIfUp ends the probes of s if it is up, and reports whether it is. Both happen under one
// lock, so that a later failure begins new probes.
func (s *server) endProbesIfUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mayBeDownLocked() {
		return false
	}
	s.probed = false
	return true
}

// probeUntilUp probes s until it replies, is removed from the list, or ctx ends.
func (c *Client) probeUntilUp(ctx context.Context, s *server) {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		c.probe(ctx, s)
		if s.endProbesIfUp() {
			return
		}
		if ctx.Err() != nil || !slices.Contains(*c.servers.Load(), s) {
			s.endProbes()
			return
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// probe sends a query for the SOA record of the zone. Every reply shows that the server is up.
func (c *Client) probe(ctx context.Context, s *server) {
	q, err := newQuery(new(dns.Msg).SetQuestion(c.cfg.Zone, dns.TypeSOA), nil)
	if err == nil {
		_, err = c.try(ctx, s, q)
	}
	if err != nil {
		c.cfg.Logger.Debug("upstream server does not reply to a probe", "server", s.Server, "error", err)
	}
}
