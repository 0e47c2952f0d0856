// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Run keeps connections open for reuse and looks for loops: at the start, after
// SetServers, and from time to time. It returns nil when ctx is done and all that it
// started has ended. It panics if it is running already.
func (c *Client) Run(ctx context.Context) error {
	var started sync.WaitGroup
	c.setSpawn(func(f func(context.Context)) { started.Go(func() { f(ctx) }) })
	defer started.Wait()
	defer c.setSpawn(nil) // first, so that nothing is started while we wait
	defer c.cfg.Metrics.follow(c)()

	check := time.NewTimer(c.cfg.LoopCheck)
	defer check.Stop()
	c.look()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-check.C:
		}
		if c.cfg.Loop == nil {
			continue
		}
		next := c.cfg.LoopCheck
		if c.probe(ctx) {
			next /= loopRecheck
		}
		check.Reset(next)
	}
}

func (c *Client) setSpawn(spawn func(func(context.Context))) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spawn != nil && c.spawn != nil {
		panic("upstream: Run was called while it runs")
	}
	c.spawn = spawn
}

// start runs f in a goroutine that Run ends and waits for. It is false when Run does
// not run.
func (c *Client) start(f func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spawn == nil {
		return false
	}
	c.spawn(f)
	return true
}

// probe looks at all servers at once whether they loop, and tells whether one does.
func (c *Client) probe(ctx context.Context) (looping bool) {
	var all sync.WaitGroup
	servers := *c.servers.Load()
	for _, s := range servers {
		all.Go(func() { c.probeServer(ctx, s) })
	}
	all.Wait()
	for _, s := range servers {
		looping = looping || s.isLooping()
	}
	return looping
}

// probeServer sends one probe. Only whether it comes back counts, not its answer.
func (c *Client) probeServer(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
	defer cancel()
	name := c.cfg.Loop.begin(c.cfg.Zone)
	q, err := newQuery(new(dns.Msg).SetQuestion(name, probeType), nil)
	if err != nil { // LoopZone leaves no room for a probe
		c.cfg.Loop.end(name)
		return
	}
	_, err = c.send(ctx, s, q, q.wire)
	looping := c.cfg.Loop.end(name)
	if err != nil && !looping && errors.Is(ctx.Err(), context.Canceled) {
		return // it was not given its time
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case looping && !s.looping:
		s.log.Error("the upstream server sends our queries back to us and is no longer asked; look for a resolv.conf or forwarder behind it that leads here",
			"server", s.Server)
	case !looping && s.looping:
		s.log.Info("the upstream server no longer sends our queries back to us", "server", s.Server)
	}
	s.looping = looping
}
