// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

func TestConfig(t *testing.T) {
	for _, cfg := range []upstream.Config{
		{TryTimeout: -1}, {Timeout: -1}, {IdleTimeout: -1}, {LoopCheck: -1}, {MaxConcurrent: -1}, {Policy: 3}, {Policy: -1},
	} {
		if _, err := upstream.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// Which server's word counts.
func TestNextServer(t *testing.T) {
	noLeaks(t)
	answering := func(rcode int, addresses ...string) func(testing.TB) *fake {
		return func(t testing.TB) *fake { return serve(t, always(t, rcode, addresses...)) }
	}
	mute := func(t testing.TB) *fake { return serve(t, silent) }
	absent := func(t testing.TB) *fake { // nobody is at the port any more
		var s *fake
		t.(*testing.T).Run("gone", func(t *testing.T) { s = serve(t, silent) })
		return s
	}
	a, b := answering(0, "192.0.2.1"), answering(0, "192.0.2.2")
	failing, refusing := answering(dns.RcodeServerFailure), answering(dns.RcodeRefused)
	tests := []struct {
		why     string
		servers []func(testing.TB) *fake
		want    string
	}{
		{"the first", []func(testing.TB) *fake{a, b}, "192.0.2.1"},
		{"after silence", []func(testing.TB) *fake{mute, b}, "192.0.2.2"},
		{"after nobody", []func(testing.TB) *fake{absent, b}, "192.0.2.2"},
		{"after a failure", []func(testing.TB) *fake{failing, b}, "192.0.2.2"},
		{"after a refusal", []func(testing.TB) *fake{refusing, b}, "192.0.2.2"},
		{"after one who cannot", []func(testing.TB) *fake{answering(dns.RcodeNotImplemented), b}, "192.0.2.2"},
		{"NXDOMAIN is an answer", []func(testing.TB) *fake{answering(dns.RcodeNameError), b}, "NXDOMAIN"},
		{"and so is no data", []func(testing.TB) *fake{answering(0), b}, "NOERROR"},
		{"nobody knows: the first word", []func(testing.TB) *fake{failing, refusing}, "SERVFAIL"},
		{"a failure is better than silence", []func(testing.TB) *fake{mute, refusing}, "REFUSED"},
		{"silence", []func(testing.TB) *fake{mute, mute}, "error: no upstream server answers"},
		{"nobody", []func(testing.TB) *fake{absent}, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			var servers []*fake
			for _, f := range tt.servers {
				servers = append(servers, f(t))
			}
			expect(t, newClient(t, upstream.Config{TryTimeout: short, Timeout: 3 * short}, servers...), tt.want)
		})
	}
}

// A lost packet: the only server is asked once more.
func TestLostPacket(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if n.Add(1) == 1 {
			return nil
		}
		return [][]byte{good(t, query)}
	})
	expect(t, newClient(t, upstream.Config{TryTimeout: short}, s), "192.0.2.1")
}

// A silent server goes behind the others, and is seen to rest.
func TestRest(t *testing.T) {
	mute, other := serve(t, silent), serve(t, always(t, 0, "192.0.2.2"))
	c := newClient(t, upstream.Config{TryTimeout: short / 3}, mute, other)
	for i := range 20 {
		if got := addresses(t, c, fmt.Sprintf("n%d.example.com.", i)); got != "192.0.2.2" {
			t.Errorf("query %d: %s", i, got)
		}
	}
	// Two failures, and the few probes for which there was time.
	if n := mute.overUDP.Load(); n < 2 || n > 10 {
		t.Errorf("the silent server was asked %d times of 20", n)
	}
	if got := c.Status(); !got[0].Down || got[1].Down || got[0].Server != mute.Server {
		t.Errorf("%+v", got)
	}
}

// TestSlowLists: a server that answers others does not rest because search lists get no
// answer in time. It does if these are lost with the rest, or if plain questions are.
func TestSlowLists(t *testing.T) {
	const code, rounds = 65313, 2 // in which a server is asked
	for _, tt := range []struct {
		what         string
		plain, lists bool // are answered
		want         bool // it rests
	}{
		{"lists are slow", true, false, false},
		{"nobody is answered", false, false, true},
		{"lists are answered, and others not", false, true, true},
	} {
		s := serve(t, func(_ string, query *dns.Msg) [][]byte {
			if list := len(query.IsEdns0().Option) > 0; list && !tt.lists || !list && !tt.plain {
				return nil
			}
			return [][]byte{good(t, query)}
		})
		c := newClient(t, upstream.Config{Options: []uint16{code}, TryTimeout: short / 3}, s)
		var lists, plain sync.WaitGroup
		for i := range 2 {
			query := ask(fmt.Sprintf("l%d.example.com.", i))
			query.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: code, Data: []byte("a.example")}}
			lists.Go(func() { _, _ = c.Exchange(t.Context(), query) })
		}
		for i := range 2 * rounds { // a moment before the lists are given up, too
			plain.Go(func() { _, _ = c.Exchange(t.Context(), ask(fmt.Sprintf("n%d.example.com.", i))) })
			time.Sleep(short / 3 / 2)
		}
		lists.Wait()
		plain.Wait()
		if got := c.Status()[0].Down; got != tt.want {
			t.Errorf("%s: resting: %t", tt.what, got)
		}
	}
}

func TestSetServers(t *testing.T) {
	a, b := serve(t, always(t, 0, "192.0.2.1")), serve(t, always(t, 0, "192.0.2.2"))
	c := newClient(t, upstream.Config{})
	if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrNoServers) {
		t.Errorf("without servers: %v", err)
	}
	c.SetServers([]upstream.Server{a.Server, a.Server})
	expect(t, c, "192.0.2.1")
	c.SetServers([]upstream.Server{b.Server, a.Server})
	expect(t, c, "192.0.2.2")
	if got := c.Status(); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// arrival is a context that tells when somebody begins to wait for it.
type arrival struct {
	context.Context
	waits func()
}

func (a arrival) Done() <-chan struct{} {
	a.waits()
	return a.Context.Done()
}

// Equal questions share one query, and one who leaves does not take it away from the
// others.
func TestSingleFlight(t *testing.T) {
	noLeaks(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		<-release
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{}, s)
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Exchange(first, ask("www.example.com."))
		left <- err
	}()
	<-arrived

	spellings := []string{"www.example.com.", "WWW.example.com.", "www.EXAMPLE.com."}
	var waiting, all sync.WaitGroup
	for _, name := range spellings {
		waiting.Add(1)
		all.Go(func() {
			query := ask(name)
			m, err := c.Exchange(arrival{t.Context(), sync.OnceFunc(waiting.Done)}, query)
			if err != nil || m.Question[0].Name != name || m.Id != query.Id || len(m.Answer) != 1 {
				t.Errorf("%s: %v, %v", name, err, m)
			}
		})
	}
	waiting.Wait()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who left: %v", err)
	}
	close(release)
	all.Wait()
	if n := s.overUDP.Load(); n != 1 {
		t.Errorf("%d queries", n)
	}
}

// What makes another answer makes another query.
func TestSeparateFlights(t *testing.T) {
	changes := []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA },
		func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		func(m *dns.Msg) { m.CheckingDisabled = true },
		func(m *dns.Msg) { m.RecursionDesired = false },
		func(m *dns.Msg) { m.SetEdns0(1232, true) },
	}
	var all sync.WaitGroup
	together := make(chan struct{})
	var n atomic.Int64
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if n.Add(1) == int64(len(changes)) {
			close(together)
		}
		return nil
	})
	c := newClient(t, upstream.Config{TryTimeout: 10 * time.Second, Timeout: 10 * time.Second}, s)
	ctx, cancel := context.WithCancel(t.Context())
	for _, change := range changes {
		query := ask("www.example.com.")
		change(query)
		all.Go(func() { c.Exchange(ctx, query) })
	}
	<-together
	cancel()
	all.Wait()
}

func TestMaxConcurrent(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		<-release
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{MaxConcurrent: 1}, s)
	var first sync.WaitGroup
	first.Go(func() { expect(t, c, "192.0.2.1") })
	<-arrived
	if _, err := c.Exchange(t.Context(), ask("other.example.com.")); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("the second: %v", err)
	}
	close(release)
	first.Wait()
	expect(t, c, "192.0.2.1")
}

func TestObserve(t *testing.T) {
	s := serve(t, func(network string, query *dns.Msg) [][]byte {
		if network == "udp" {
			return [][]byte{truncated(t, query)}
		}
		return [][]byte{good(t, query)}
	})
	var seen []string
	c := newClient(t, upstream.Config{Observe: func(a upstream.Attempt) {
		seen = append(seen, fmt.Sprint(a.Network, " ", a.Server == s.Server, " ", a.Reply != nil, " ", a.Err))
	}}, s)
	expect(t, c, "192.0.2.1")
	if got, want := fmt.Sprint(seen), "[udp true true truncated tcp true true <nil>]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestQueriesWithoutQuestion(t *testing.T) {
	c := newClient(t, upstream.Config{})
	if _, err := c.Exchange(t.Context(), new(dns.Msg)); err == nil {
		t.Error("no question is asked")
	}
	if _, err := c.Exchange(t.Context(), ask("a..b.")); err == nil {
		t.Error("a name that is none is asked for")
	}
}

// A fault of ours is an error of the query that found it.
func TestPanic(t *testing.T) {
	noLeaks(t)
	healthy := false
	c := newClient(t, upstream.Config{Observe: func(upstream.Attempt) {
		if !healthy {
			panic("a fault of ours")
		}
	}}, serve(t, always(t, 0, "192.0.2.1")))
	expect(t, c, "error: asking upstream servers panicked: a fault of ours")
	healthy = true
	expect(t, c, "192.0.2.1")
}
