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

// messages is a log handler that sends the messages to a channel.
type messages struct {
	slog.Handler
	c chan string
}

func (m messages) Handle(_ context.Context, r slog.Record) error {
	m.c <- r.Message
	return nil
}

func newMessages() messages { return messages{slog.DiscardHandler, make(chan string, 100)} }

// Enabled overrides that of the discard handler.
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

// The host's resolver forwards queries back to the server. The server receives the probe,
// and the client does not use the resolver until the loop is gone.
func TestRun_Loop(t *testing.T) {
	noLeaks(t)
	var loop upstream.LoopDetector
	self := serve(t, func(_ string, query *dns.Msg) [][]byte { // the server that forwards to host
		if loop.DetectProbe(query.Question[0]) {
			return [][]byte{pack(t, reply(query, dns.RcodeRefused))}
		}
		t.Errorf("%v would loop", query.Question)
		return nil
	})
	toSelf := newClient(t, upstream.Config{}, self)
	var fixed atomic.Bool
	host := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if fixed.Load() {
			return [][]byte{good(t, query)}
		}
		m, err := toSelf.Exchange(t.Context(), query)
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
	log.expect(t, "forwarding loop: ")
	if got := c.Status(); !got[0].Looping {
		t.Errorf("%+v", got)
	}
	before := host.overUDP.Load()
	if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrLoop) {
		t.Errorf("%v", err)
	}
	if host.overUDP.Load() != before {
		t.Error("the looping server was used")
	}
	c.SetServers([]upstream.Server{host.Server, other.Server})
	expect(t, c, "192.0.2.2") // a looping server does not affect the others

	fixed.Store(true)
	c.SetServers([]upstream.Server{host.Server})
	log.expect(t, "forwarding loop is gone")
	expect(t, c, "192.0.2.1")
}

// Loops are checked again without a change of servers.
func TestRun_LoopRecheck(t *testing.T) {
	var loop upstream.LoopDetector
	var loops atomic.Bool
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if loops.Load() && !loop.DetectProbe(query.Question[0]) {
			t.Errorf("%v is not detected as a probe", query.Question)
		}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, LoopCheck: short, Logger: slog.New(log)}, s)
	run(t, c)
	for range 3 {
		loops.Store(true)
		log.expect(t, "forwarding loop: ")
		loops.Store(false)
		log.expect(t, "forwarding loop is gone")
	}
}

// Only a probe in flight is detected.
func TestDetectProbe_OtherQueries(t *testing.T) {
	var loop upstream.LoopDetector
	seen := make(chan dns.Question, 100)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		q := query.Question[0]
		q.Name = strings.ToUpper(q.Name) // resolvers may change the case
		other, longer := q, q
		other.Qtype, longer.Name = dns.TypeA, "x."+q.Name
		if loop.DetectProbe(other) || loop.DetectProbe(longer) || !loop.DetectProbe(q) {
			t.Errorf("want a probe: %v; not a probe: %v, %v", q, other, longer)
		}
		seen <- q
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	if loop.DetectProbe(dns.Question{Name: "a.b.", Qtype: dns.TypeHINFO, Qclass: dns.ClassINET}) {
		t.Error("a probe is detected before one is sent")
	}
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, Logger: slog.New(log)}, s)
	stop := run(t, c)
	probe := <-seen
	log.expect(t, "forwarding loop: ")
	stop()
	if loop.DetectProbe(probe) {
		t.Error("a probe is detected after its end")
	}
	if labels := dns.CountLabel(probe.Name); labels != 2 {
		t.Errorf("%s has %d labels", probe.Name, labels)
	}
}

func TestRun_Twice(t *testing.T) {
	arrived := make(chan struct{}, 10)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	c := newClient(t, upstream.Config{Loop: new(upstream.LoopDetector)}, s)
	stop := run(t, c)
	<-arrived // the probe: Run is running
	defer func() {
		if recover() == nil {
			t.Error("the second Run did not panic")
		}
		stop()
		run(t, c)() // sequential calls are valid
	}()
	c.Run(t.Context())
}
