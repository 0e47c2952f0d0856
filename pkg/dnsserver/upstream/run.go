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

// errStopped is returned for queries over TCP and TLS after Run has ended.
var errStopped = errors.New("upstream client is stopped")

// Run owns the sockets and connections to servers, probes servers that may be down until they reply,
// and detects loops: at the start, after SetServers, every Config.LoopCheck, and after a query
// that no server answered. When ctx ends, Run waits until the queries on them are answered or
// time out, closes them and returns nil. Exchange may be called before
// Run, such as during a reload. After Run, Exchange uses UDP only. Run panics if it is running
// already.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.phase == inRun {
		c.mu.Unlock()
		panic("upstream: Run called while it is running")
	}
	c.phase, c.run = inRun, ctx
	c.mu.Unlock()
	defer c.cfg.Metrics.register(c)()
	defer c.cfg.Loop.register(c)()
	defer c.running.Wait()
	defer c.endRun() // before Wait, so that no connection is opened during it

	for _, s := range *c.servers.Load() {
		c.probeIfDown(s) // it may have failed before
	}
	check := time.NewTimer(c.cfg.LoopCheck)
	defer check.Stop()
	var last time.Time // the end of the last probes
	c.wake()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-check.C:
		case <-c.failed:
			if time.Since(last) < c.cfg.LoopCheck/loopRecheck {
				continue
			}
		}
		if c.cfg.Loop == nil {
			continue
		}
		next := c.cfg.LoopCheck
		if c.probeServers(ctx) {
			next /= loopRecheck
		}
		last = time.Now()
		check.Reset(next)
	}
}

func (c *Client) endRun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = afterRun
	for drain := range c.drains {
		(*drain)()
	}
}

// goInRun calls f in a goroutine that Run waits for, with the context of Run. It returns false
// if Run is not running.
func (c *Client) goInRun(f func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != inRun {
		return false
	}
	ctx := c.run
	c.running.Go(func() { f(ctx) })
	return true
}

// start calls run in a goroutine that Run waits for. At its end Run calls drain, after which run must return
// soon. start returns false if Run has ended.
func (c *Client) start(run, drain func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == afterRun {
		return false
	}
	c.drains[&drain] = true
	c.running.Go(func() {
		run()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.drains, &drain)
	})
	return true
}

// probeServers probes all servers at once and reports whether any of them loops.
func (c *Client) probeServers(ctx context.Context) (looping bool) {
	var probes sync.WaitGroup
	servers := *c.servers.Load()
	for _, s := range servers {
		probes.Go(func() { c.probeServer(ctx, s) })
	}
	probes.Wait()
	for _, s := range servers {
		looping = looping || s.isLooping()
	}
	return looping
}

// probeServer sends one probe. The server loops if this process receives the probe, or if
// the reply is that of another replica.
func (c *Client) probeServer(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.TryTimeout, errSilent)
	defer cancel()
	name := c.cfg.Loop.startProbe(c.cfg.Zone)
	q, err := newQuery(new(dns.Msg).SetQuestion(name, probeType), nil)
	if err != nil { // a name below Zone would be too long
		c.cfg.Loop.endProbe(name)
		return
	}
	m, err := c.send(ctx, s, q, q.wire)
	received := c.cfg.Loop.endProbe(name)
	looping := received || err == nil && c.cfg.Loop.isAnswer(name, m)
	if err != nil && !looping && errors.Is(ctx.Err(), context.Canceled) {
		return // the probe was cut short
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case looping && !s.looping:
		s.log.Error("forwarding loop: upstream server sends queries back to this server and is not "+
			"used: remove this server from its resolv.conf or forwarders",
			"server", s.Server)
	case !looping && s.looping:
		s.log.Info("forwarding loop is gone, upstream server is used again", "server", s.Server)
	}
	s.looping = looping
}
