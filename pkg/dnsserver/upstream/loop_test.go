// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// messages is a log whose messages can be waited for.
type messages struct {
	slog.Handler
	c chan string
}

func (m messages) Handle(_ context.Context, r slog.Record) error {
	m.c <- r.Message
	return nil
}

func newMessages() messages { return messages{slog.DiscardHandler, make(chan string, 100)} }

// Enabled is needed because the handler that discards is not.
func (m messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) expect(t *testing.T, part string) {
	t.Helper()
	select {
	case got := <-m.c:
		if !strings.Contains(got, part) {
			t.Errorf("logged %q, want %q", got, part)
		}
	case <-t.Context().Done():
		t.Errorf("%q was not logged", part)
	}
}

// A host's resolver forwards to us what we send to it: our server sees the probe, and
// the host's resolver is left alone until it has mended its ways.
func TestLoop(t *testing.T) {
	noLeaks(t)
	var loop upstream.LoopDetector
	ours := serve(t, func(_ string, query *dns.Msg) [][]byte { // the server's end
		if loop.DetectProbe(query.Question[0]) {
			return [][]byte{pack(t, reply(query, dns.RcodeRefused))}
		}
		t.Errorf("%v would go round and round", query.Question)
		return nil
	})
	toUs := newClient(t, upstream.Config{}, ours)
	var mended atomic.Bool
	host := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if mended.Load() {
			return [][]byte{good(t, query)}
		}
		m, err := toUs.Exchange(t.Context(), query)
		if err != nil {
			t.Error(err)
			return nil
		}
		return [][]byte{pack(t, m)}
	})
	other := serve(t, always(t, 0, "192.0.2.2"))

	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, Zone: "corp.example.", Logger: slog.New(log)}, host)
	run(t, c)
	log.expect(t, "sends our queries back to us")
	if got := c.Status(); !got[0].Looping {
		t.Errorf("%+v", got)
	}
	before := host.overUDP.Load()
	if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrLoop) {
		t.Errorf("%v", err)
	}
	if host.overUDP.Load() != before {
		t.Error("the server that loops was asked")
	}
	c.SetServers([]upstream.Server{host.Server, other.Server})
	expect(t, c, "192.0.2.2") // one that loops does not take the others with it

	mended.Store(true)
	c.SetServers([]upstream.Server{host.Server})
	log.expect(t, "no longer sends our queries back")
	expect(t, c, "192.0.2.1")
}

// Looking again needs no change of servers.
func TestLoopIsCheckedAgain(t *testing.T) {
	var loop upstream.LoopDetector
	var loops atomic.Bool
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if loops.Load() && !loop.DetectProbe(query.Question[0]) {
			t.Errorf("%v is no probe", query.Question)
		}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, LoopCheck: short, Logger: slog.New(log)}, s)
	run(t, c)
	for range 3 {
		loops.Store(true)
		log.expect(t, "sends our queries back to us")
		loops.Store(false)
		log.expect(t, "no longer sends our queries back")
	}
}

// Nobody but a probe on its way is taken for one.
func TestNotReturned(t *testing.T) {
	var loop upstream.LoopDetector
	seen := make(chan dns.Question, 100)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		q := query.Question[0]
		q.Name = strings.ToUpper(q.Name) // resolvers may play with case
		other, longer := q, q
		other.Qtype, longer.Name = dns.TypeA, "x."+q.Name
		if loop.DetectProbe(other) || loop.DetectProbe(longer) || !loop.DetectProbe(q) {
			t.Errorf("%v is not told from %v and %v", q, other, longer)
		}
		seen <- q
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	if loop.DetectProbe(dns.Question{Name: "a.b.", Qtype: dns.TypeHINFO, Qclass: dns.ClassINET}) {
		t.Error("a probe comes back before one is sent")
	}
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, Logger: slog.New(log)}, s)
	stop := run(t, c)
	probe := <-seen
	log.expect(t, "sends our queries back to us")
	stop()
	if loop.DetectProbe(probe) {
		t.Error("a probe comes back after its time")
	}
	if labels := dns.CountLabel(probe.Name); labels != 2 {
		t.Errorf("%s has %d labels", probe.Name, labels)
	}
}

// A client is run by one.
func TestRunTwice(t *testing.T) {
	arrived := make(chan struct{}, 10)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	c := newClient(t, upstream.Config{Loop: new(upstream.LoopDetector)}, s)
	stop := run(t, c)
	<-arrived // the probe: it runs
	defer func() {
		if recover() == nil {
			t.Error("Run runs twice")
		}
		stop()
		run(t, c)() // one after the other is fine
	}()
	c.Run(t.Context())
}
