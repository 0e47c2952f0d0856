// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// resolver is an upstream whose state the test sets. What it answers has the TTL 100,
// and the number of the query in its address.
type resolver struct {
	rcode int
	err   error
	hangs chan struct{} // not nil: it answers when this is closed
	asked atomic.Int32
}

func (r *resolver) exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	n := r.asked.Add(1)
	if r.hangs != nil {
		select {
		case <-r.hangs:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	m := new(dns.Msg).SetRcode(q, r.rcode)
	switch rr := fmt.Sprintf("example. 100 IN SOA ns.example. admin.example. %d 2 3 4 100", n); r.rcode {
	case dns.RcodeSuccess:
		rr = fmt.Sprintf("%s 100 IN A 192.0.2.%d", q.Question[0].Name, n)
		fallthrough
	case dns.RcodeNameError:
		record, err := dns.NewRR(rr)
		if err != nil {
			return nil, err
		}
		if m.Answer = []dns.RR{record}; r.rcode == dns.RcodeNameError {
			m.Answer, m.Ns = nil, m.Answer
		}
	}
	return m, nil
}

// TestCacheStates goes through the life of an answer, minute by minute, in fake time.
func TestCacheStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &resolver{}
		s := newTestServer(t, noChange, "loaded", up.exchange)
		begin := time.Now()
		at := func(seconds int) { time.Sleep(time.Until(begin.Add(time.Duration(seconds) * time.Second))) }
		expect := func(state, want string, asked int) {
			t.Helper()
			reply := s.direct(t, asking("www.Example. A", true), overUDP)
			got := dns.RcodeToString[reply.Rcode]
			if len(reply.Answer) > 0 {
				a := reply.Answer[0].(*dns.A)
				got = fmt.Sprintf("%s %d %s", a.Hdr.Name, a.Hdr.Ttl, a.A)
			}
			if code := why(reply); code >= 0 {
				got += " " + dns.ExtendedErrorCodeToString[uint16(code)]
			}
			synctest.Wait()
			if got != want || int(up.asked.Load()) != asked {
				t.Errorf("%s: %s after %d queries, want %s after %d", state, got, up.asked.Load(), want, asked)
			}
		}
		expect("nothing is known", "www.Example. 100 192.0.2.1", 1)
		at(10)
		expect("fresh", "www.Example. 90 192.0.2.1", 1)
		expect("popular", "www.Example. 90 192.0.2.1", 1)
		at(89)
		expect("before the last tenth", "www.Example. 11 192.0.2.1", 1)

		up.hangs = make(chan struct{})
		at(91)
		expect("expiring, refreshed in the background", "www.Example. 9 192.0.2.1", 2)
		for range 100 {
			expect("the refresh is one for all", "www.Example. 9 192.0.2.1", 2)
		}
		close(up.hangs)
		synctest.Wait()
		expect("refreshed", "www.Example. 100 192.0.2.2", 2)
		up.hangs = nil

		up.err = errors.New("connection refused")
		at(192)
		expect("stale, and upstream refuses", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		expect("failing: upstream is left alone", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		at(221)
		expect("failing for 30 seconds", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		at(222)
		expect("stale again", "www.Example. 30 192.0.2.2 Stale Answer", 4)

		up.err, up.hangs = nil, make(chan struct{})
		at(260)
		expect("upstream hangs: the client waits for its patience", "www.Example. 30 192.0.2.2 Stale Answer", 5)
		if waited := time.Since(begin.Add(260 * time.Second)); waited != staleDelay {
			t.Errorf("the client has waited for %v, want %v", waited, staleDelay)
		}
		close(up.hangs)
		synctest.Wait()
		expect("the late answer counts", "www.Example. 100 192.0.2.5", 5)
		up.hangs = nil

		up.err = errors.New("connection refused")
		at(263 + 100 + 3600)
		expect("too old to be given", "SERVFAIL Network Error", 6)
		expect("the failure is kept", "SERVFAIL", 6)
		up.err = nil
		at(263 + 100 + 3600 + 4)
		expect("for 5 seconds", "SERVFAIL", 6)
		at(263 + 100 + 3600 + 5)
		expect("upstream is back", "www.Example. 100 192.0.2.7", 7)
	})
}

// TestStaleDenial: that of a name has a code of its own (RFC 8914 section 4.20).
func TestStaleDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &resolver{rcode: dns.RcodeNameError}
		s := newTestServer(t, noChange, "namespace default\nservice default/gone external=none.example\nloaded", up.exchange)
		s.direct(t, asking("none.example. A", true), overUDP)
		time.Sleep(101 * time.Second)
		up.rcode = dns.RcodeServerFailure
		for _, name := range []string{"none.example. A", "gone.default.svc.cluster.local. A"} {
			reply := s.direct(t, asking(name, true), overUDP)
			if soa := reply.Ns[0].(*dns.SOA); reply.Rcode != dns.RcodeNameError || soa.Hdr.Ttl != 30 || why(reply) != int(dns.ExtendedErrorCodeStaleNXDOMAINAnswer) {
				t.Errorf("%s: %v", name, reply)
			}
		}
	})
}

// TestStubDomains: the longest zone that a name is in wins, label by label, and one of
// the cluster goes before all.
func TestStubDomains(t *testing.T) {
	says := func(address string) Exchange {
		return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A " + address)
			m := new(dns.Msg).SetReply(q)
			m.Answer = []dns.RR{rr}
			return m, err
		}
	}
	zones := []Stub{ // neither the first nor the last that fits
		{Zone: fqdn.Join(fqdn.Root, "corp", "example"), Exchange: says("192.0.2.2")},
		{Zone: fqdn.Join(fqdn.Root, "de", "eu", "corp", "example"), Exchange: says("192.0.2.5")},
		{Zone: fqdn.Join(fqdn.Root, "eu", "corp", "example"), Exchange: says("192.0.2.3")},
		{Zone: fqdn.Join(fqdn.Root, "local"), Exchange: says("192.0.2.4")},
	}
	s := serve(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nservice default/ext external=db.eu.corp.example\nloaded", says("192.0.2.1"), zones...)
	s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
		for name, want := range map[string]string{
			"www.example.":                   "192.0.2.1",
			"example.":                       "192.0.2.1",
			"corp.example.":                  "192.0.2.2",
			"DB.Corp.Example.":               "192.0.2.2",
			"notcorp.example.":               "192.0.2.1",
			"eu.corp.example.":               "192.0.2.3",
			"a.b.eu.corp.example.":           "192.0.2.3",
			"noteu.corp.example.":            "192.0.2.2",
			"x.de.eu.corp.example.":          "192.0.2.5",
			"printer.local.":                 "192.0.2.4",
			"web.default.svc.cluster.local.": "10.96.0.7",
			"ext.default.svc.cluster.local.": "192.0.2.3",
		} {
			reply := ask(name + " A")
			if n := len(reply.Answer); n == 0 || reply.Answer[n-1].(*dns.A).A.String() != want {
				t.Errorf("%s: %s, want %s", name, text(reply), want)
			}
		}
		if reply := ask("none.default.svc.cluster.local. A"); reply.Rcode != dns.RcodeNameError {
			t.Errorf("the stub domain above the cluster's was asked for a name of the cluster: %s", text(reply))
		}
	})
}

// TestOwnerCase: each client gets its own spelling, whoever asked first (RFC 4343), and
// what else is in the answer as upstream wrote it.
func TestOwnerCase(t *testing.T) {
	known := parseRecords(t, "www.example. 60 IN CNAME Target.Example.\nTarget.Example. 60 IN A 192.0.2.1")
	asked := atomic.Int32{}
	s := serve(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded", func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		asked.Add(1)
		return known.exchange(ctx, q)
	})
	s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
		for _, name := range []string{"WwW.eXaMpLe.", "www.example.", "WWW.EXAMPLE."} {
			want := "NOERROR\n" + name + " 60 IN CNAME Target.Example.\nTarget.Example. 60 IN A 192.0.2.1\n"
			if got := text(ask(name + " A")); got != want && got != strings.ReplaceAll(want, " 60 ", " 59 ") {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for _, name := range []string{"WEB.default.svc.cluster.LOCAL.", "Web.Default.Svc.Cluster.Local."} {
			if got, want := text(ask(name+" A")), "NOERROR aa\n"+name+" 5 IN A 10.96.0.7\n"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	if asked.Load() != 1 {
		t.Errorf("upstream was asked %d times", asked.Load())
	}
}

// TestReason: an error may be longer than what a client takes.
func TestReason(t *testing.T) {
	up := &resolver{err: errors.New(strings.Repeat("é", 40_000))}
	s := serve(t, "loaded", up.exchange)
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61) + "."
	q := new(dns.Msg).SetQuestion(long, dns.TypeA).SetEdns0(minUDP, true)
	for _, network := range []string{"udp", "tcp"} {
		s.cache.Clear()
		reply := s.exchange(t, network, q)
		if reply.Rcode != dns.RcodeServerFailure || reply.Truncated || why(reply) != int(dns.ExtendedErrorCodeNetworkError) || reply.Len() > minUDP {
			t.Errorf("%s: %d octets, %s", network, reply.Len(), reply)
		}
	}
}

// TestPanicInBackground: a fault in a refresh that nobody waits for is counted, and the
// refresh is tried again.
func TestPanicInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &resolver{}
		s := newTestServer(t, noChange, "loaded", func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if up.err != nil {
				panic(up.err)
			}
			return up.exchange(ctx, q)
		})
		expect := func(want string) {
			t.Helper()
			if got := addresses(s.direct(t, asking("www.example. A", false), overUDP)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			synctest.Wait()
		}
		for range 4 {
			expect("192.0.2.1")
		}
		up.err = errors.New("a fault of ours")
		time.Sleep(95 * time.Second)
		expect("192.0.2.1") // expiring
		time.Sleep(10 * time.Second)
		expect("192.0.2.1") // stale, after the client's patience
		if got := s.count(t, "dnsconfigurer_dns_panics_total"); got != 2 {
			t.Errorf("%d panics, want 2", got)
		}
		up.err = nil
		expect("192.0.2.2")
	})
}
