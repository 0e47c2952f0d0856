// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// errStopped is returned for queries over TCP and TLS after Run has ended.
var errStopped = errors.New("upstream client is stopped")

// Run owns the sockets and connections to servers, probes servers that may be down until they reply, and detects
// loops: at the start, after SetServers, every Config.LoopCheck, and after a query that no server answered. When ctx
// ends, Run waits until the queries on them are answered or time out, closes them and returns nil. Exchange may be
// called before Run, such as during a reload. After Run, Exchange uses UDP only. Run panics if it is running already.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.phase == inRun {
		c.mu.Unlock()
		panic("upstream: Run called while it is running")
	}
	c.phase, c.run = inRun, ctx
	c.mu.Unlock()
	defer c.cfg.Metrics.deleteSeries(prometheus.Labels{"zone": c.cfg.Zone})
	c.cfg.Metrics.running.Store(c, true)
	defer c.cfg.Metrics.running.Delete(c)
	if c.cfg.Loop != nil {
		c.cfg.Loop.clients.Store(c, true)
		defer c.cfg.Loop.clients.Delete(c)
	}
	defer c.running.Wait()
	defer c.endRun() // before Wait, so that no connection is opened during it

	for _, s := range *c.servers.Load() {
		c.probeIfDown(s) // it may have failed before
	}
	check := time.NewTimer(c.cfg.LoopCheck)
	defer check.Stop()
	var last time.Time // the end of the last probes
	wake(c.changed)
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

// goInRun calls f in a goroutine that Run waits for, with the context of Run. It returns false if Run is not running.
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

// probeServers sends a probe to each server. It reports whether to send others soon.
func (c *Client) probeServers(ctx context.Context) bool {
	var probes sync.WaitGroup
	var again atomic.Bool
	for _, s := range *c.servers.Load() {
		probes.Go(func() {
			if c.probeServer(ctx, s) {
				again.Store(true)
			}
		})
	}
	probes.Wait()
	return again.Load()
}

// probeServer sends one probe. The server loops if this process receives the probe, or if
// the reply is that of another replica. It reports whether to send another one soon: the server loops, or did not reply.
func (c *Client) probeServer(ctx context.Context, s *server) (again bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.TryTimeout, errSilent)
	defer cancel()
	name := c.cfg.Loop.startProbe(c.cfg.Zone)
	q, err := newQuery(new(dns.Msg).SetQuestion(name, probeType), nil)
	if err != nil { // a name below Zone would be too long
		c.cfg.Loop.endProbe(name)
		return false
	}
	m, err := c.send(ctx, s, q, q.wire)
	received := c.cfg.Loop.endProbe(name)
	looping := received || err == nil && c.cfg.Loop.isAnswer(name, m)
	if err != nil && !looping && errors.Is(ctx.Err(), context.Canceled) {
		return false // the probe was cut short
	}
	switch was := s.looping.Swap(looping); {
	case looping && !was:
		s.log.Error("forwarding loop: upstream server sends queries back to this server and is not "+
			"used: remove this server from its resolv.conf or forwarders",
			"server", s.Server)
	case !looping && was:
		s.log.Info("forwarding loop is gone, upstream server is used again", "server", s.Server)
	}
	return looping || err != nil
}

// LoopDetector detects forwarding loops: upstream servers that send queries back to this server, directly or through
// others. A host's resolv.conf that names the cluster DNS is enough for one. A probe is a query for a random name; if
// this server receives it, there is a loop.
//
// Several replicas behind one address share a key. The name of a probe proves that its sender has the key. A replica
// that receives the probe of another one answers it with a record that proves the same. If that record comes back,
// there is a loop, whichever replica the address led to.
//
// The zero value is ready to use, with a random key. All clients of a process share one
// LoopDetector with the server that would receive the probes.
type LoopDetector struct {
	clients sync.Map // *Client, of those that run: SetKey wakes them

	mu     sync.Mutex
	key    []byte          // nil: not yet needed
	probes map[string]bool // in flight, by name; true: received
}

// probeType is a type that clients hardly ever query, so that [LoopDetector.DetectProbe]
// takes no lock for their queries.
const probeType = dns.TypeHINFO

// Lengths of the first two labels of a probe's name, in octets before they are encoded as hexadecimal digits.
const (
	probeRandom = 16
	probeProof  = 8
)

// SetKey sets the key that the replicas of a server share, such as the identity of their
// cluster, and starts a probe of all servers. Servers that may forward to each other must
// not share a key: a node cache would take the cluster DNS for a loop.
func (l *LoopDetector) SetKey(key string) {
	sum := sha256.Sum256([]byte(key))
	l.mu.Lock()
	l.key = sum[:]
	l.mu.Unlock()
	for c := range l.clients.Range {
		wake(c.(*Client).changed)
	}
}

// proof returns the HMAC of the text, cut to a number of octets, in hexadecimal digits: only servers with the key can
// compute it. purpose separates the proofs in names from those in records.
func (l *LoopDetector) proof(purpose, text string, octets int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == nil {
		l.key = make([]byte, sha256.Size)
		rand.Read(l.key) // never fails
	}
	h := hmac.New(sha256.New, l.key)
	h.Write([]byte(purpose + " " + text))
	return hex.EncodeToString(h.Sum(nil)[:octets])
}

// Purposes of proofs.
const (
	proofName   = "probe"
	proofRecord = "answer"
)

// DetectProbe reports whether q, received from the network, is a probe in flight, and
// records the loop. The server must refuse such a query and not forward it.
func (l *LoopDetector) DetectProbe(q dns.Question) bool {
	if q.Qtype != probeType {
		return false
	}
	name := strings.ToLower(q.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.probes[name]; !ok {
		return false
	}
	l.probes[name] = true
	return true
}

// AnswerProbe returns the record for a probe of a server with the same key, or nil for all
// other names. The server must answer a query of type HINFO with it. Its TTL is 0.
func (l *LoopDetector) AnswerProbe(name string) dns.RR {
	random, rest, _ := strings.Cut(strings.ToLower(name), ".")
	proof, zone, ok := strings.Cut(rest, ".")
	if !ok || len(random) != 2*probeRandom || len(proof) != 2*probeProof {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(proof), []byte(l.proof(proofName, random+"."+zone, probeProof))) == 0 {
		return nil
	}
	return &dns.HINFO{
		Hdr: dns.RR_Header{Name: name, Rrtype: probeType, Class: dns.ClassINET},
		Cpu: l.proof(proofRecord, strings.ToLower(name), probeRandom),
	}
}

// isAnswer reports whether m has the record with which a server with the same key answers the probe.
func (l *LoopDetector) isAnswer(name string, m *dns.Msg) bool {
	want := l.proof(proofRecord, name, probeRandom)
	return m != nil && slices.ContainsFunc(m.Answer, func(r dns.RR) bool {
		h, ok := r.(*dns.HINFO)
		return ok && h.Cpu == want
	})
}

// startProbe returns the name of a new probe below zone. It has two labels: some resolvers
// do not forward names of a single label.
func (l *LoopDetector) startProbe(zone string) string {
	var b [probeRandom]byte
	rand.Read(b[:]) // never fails
	random, zone := hex.EncodeToString(b[:]), strings.TrimPrefix(strings.ToLower(zone), ".")
	name := random + "." + l.proof(proofName, random+"."+zone, probeProof) + "." + zone
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probes == nil {
		l.probes = map[string]bool{}
	}
	l.probes[name] = false
	return name
}

// endProbe removes a probe and reports whether it was received.
func (l *LoopDetector) endProbe(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer delete(l.probes, name)
	return l.probes[name]
}
