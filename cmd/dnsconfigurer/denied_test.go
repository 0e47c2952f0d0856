// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// flippingUpstream starts an upstream server whose behavior the value of mode selects: "good" for answers
// with a TTL of 1, or else a denial or a failure.
func flippingUpstream(t *testing.T, mode *atomic.Value) (addr string) {
	t.Helper()
	return dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		r, name := new(dns.Msg).SetReply(q), q.Question[0].Name
		switch m := mode.Load(); {
		case m == "SERVFAIL":
			r.Rcode = dns.RcodeServerFailure
			return r
		case m == "NXDOMAIN" || strings.HasPrefix(name, "never."):
			r.Rcode = dns.RcodeNameError
		case m == "good" && q.Question[0].Qtype == dns.TypeA:
			header := dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
			r.Answer = []dns.RR{&dns.A{Hdr: header, A: []byte{192, 0, 2, 1}}}
			return r
		}
		header := dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 1}
		r.Ns = []dns.RR{&dns.SOA{Hdr: header, Ns: "ns.", Mbox: "ns.", Minttl: 1}}
		return r
	})).Addr.String()
}

// answerFor returns the address or the rcode, and the extended error.
func (p *dnsProcess) answerFor(name string) string {
	p.t.Helper()
	c := dns.Client{Timeout: time.Minute}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false), p.addr)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.log.String())
	}
	text := dns.RcodeToString[m.Rcode]
	if len(m.Answer) > 0 {
		text = m.Answer[0].(*dns.A).A.String()
	}
	for _, option := range m.IsEdns0().Option {
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			text += strings.TrimRight(fmt.Sprintf(" EDE %d %s", e.InfoCode, e.ExtraText), " ")
		}
	}
	return text
}

// TestLastKnownGood: with lastKnownGood, names that an upstream server has answered keep their last answer
// for this time while it denies them, in both commands. lookup says so. A stub domain may have a time of its own.
func TestLastKnownGood(t *testing.T) {
	var mode atomic.Value
	mode.Store("good")
	const duration = 6 * time.Second
	fields := fmt.Sprintf(`upstreams: [%q]
lastKnownGood: %v
stubDomains:
- {zone: same.example, servers: [%[1]q]}
- {zone: longer.example, servers: [%[1]q], lastKnownGood: 5m}
- {zone: off.example, servers: [%[1]q], lastKnownGood: 0s}
- {zone: off.cluster.local, servers: [%[1]q]}
- {zone: longer.cluster.local, servers: [%[1]q], lastKnownGood: 5m}
`, flippingUpstream(t, &mode), duration)
	node := newNodeCacheWith(t, "corp.example", "", "")
	node.reread(func() { node.configure(fmt.Sprintf("clusterDNS: [%q]\n", node.cluster.addr) + fields) }, "configuration applied")
	node.cluster.hangup(fields, "configuration applied")
	const kept = "192.0.2.1 EDE 3 last known good answer: its servers deny it now"
	for name, p := range map[string]*dnsProcess{"dns": node.cluster, "nodecache": &node.dnsProcess} {
		t.Run(name, func(t *testing.T) {
			expect := func(name, want string) {
				t.Helper()
				if got := p.answerFor(name); got != want {
					t.Errorf("%s: got %s, want %s\n%s", name, got, want, p.log.String())
				}
			}
			mode.Store("good")
			wants := map[string]string{ // after the first denial
				"a.same.example.": kept, "a.longer.example.": kept, "a.off.example.": "NXDOMAIN",
				"a.off.cluster.local.": "NXDOMAIN", "a.longer.cluster.local.": kept,
			}
			for _, name := range slices.AppendSeq([]string{"a.example.", "b.example.", "c.example."}, maps.Keys(wants)) {
				expect(name, "192.0.2.1")
			}
			time.Sleep(1100 * time.Millisecond)
			begin := time.Now()
			mode.Store("NXDOMAIN")
			expect("never.example.", "NXDOMAIN")
			expect("a.example.", kept)
			for name, want := range wants {
				expect(name, want)
			}
			mode.Store("NODATA")
			expect("b.example.", kept)
			mode.Store("SERVFAIL")
			expect("c.example.", "192.0.2.1 EDE 3")
			mode.Store("NXDOMAIN")
			if out := lookupAt(t, p.addr); !strings.Contains(out,
				`# extended error of reply 1: 3 Stale Answer: "last known good answer: its servers deny it now"`) {
				t.Errorf("%s", out)
			}
			p.eventually("the denial", func() bool { return p.answerFor("a.example.") == "NXDOMAIN" })
			if took := time.Since(begin); took < duration {
				t.Errorf("the name is denied after %v", took)
			}
			p.eventually("the denial", func() bool { return p.answerFor("a.same.example.") == "NXDOMAIN" })
			expect("a.longer.example.", kept)
			mode.Store("good")
			p.eventually("the answer", func() bool { return p.answerFor("a.example.") == "192.0.2.1" })
			if n := strings.Count(p.log.String(), "last known good"); n != 4 {
				t.Errorf("%d lines in the log, want one for each zone:\n%s", n, p.log.String())
			}
			if metrics := get(t, p.http, "/metrics"); !strings.Contains(metrics,
				`dnsconfigurer_dns_queries_total{rcode="NOERROR",source="last_known_good",transport="udp"}`) {
				t.Errorf("no counter of last known good answers")
			}
		})
	}
}

// lookupAt returns the output of a lookup of Go, which sends an OPT record.
func lookupAt(t *testing.T, server string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"lookup", "-f", "../../examples", "--resolv-conf", "", "--pod", "shop/web", "--server", server,
		"--libc", "go", "a.example.", "A"}, nil, &stdout, &stderr)
	return stdout.String() + stderr.String()
}
