// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// deniedLater starts an upstream server that answers with an address and a TTL of 1 until it denies all names.
func deniedLater(t *testing.T, denies *atomic.Bool) (addr string) {
	t.Helper()
	return dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		r := new(dns.Msg).SetReply(q)
		if header := (dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}); !denies.Load() {
			r.Answer = []dns.RR{&dns.A{Hdr: header, A: []byte{192, 0, 2, 1}}}
			return r
		}
		r.Rcode = dns.RcodeNameError
		r.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 1}, Ns: "ns.", Mbox: "ns."}}
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

// TestLastKnownGood: with lastKnownGood, names that an upstream server has answered keep their last answer while it denies
// them, in both commands. lookup says so. A stub domain may have a time of its own.
func TestLastKnownGood(t *testing.T) {
	var denies atomic.Bool
	fields := fmt.Sprintf(`upstreams: [%q]
lastKnownGood: 5m
stubDomains:
- {zone: same.example, servers: [%[1]q]}
- {zone: short.example, servers: [%[1]q], lastKnownGood: 1s}
- {zone: off.example, servers: [%[1]q], lastKnownGood: 0s}
- {zone: off.cluster.local, servers: [%[1]q]}
- {zone: longer.cluster.local, servers: [%[1]q], lastKnownGood: 5m}
`, deniedLater(t, &denies))
	node := newNodeCacheWith(t, "corp.example", "", "")
	node.reread(func() { node.configure(fmt.Sprintf("clusterDNS: [%q]\n", node.cluster.addr) + fields) }, "configuration applied")
	node.cluster.hangup(fields, "configuration applied")
	const kept = "192.0.2.1 EDE 3 last known good answer: its servers deny it now"
	wants := map[string]string{
		"a.example.": kept, "a.same.example.": kept, "a.short.example.": "NXDOMAIN", "a.off.example.": "NXDOMAIN",
		"a.off.cluster.local.": "NXDOMAIN", "a.longer.cluster.local.": kept,
	}
	servers := map[string]*dnsProcess{"dns": node.cluster, "nodecache": &node.dnsProcess}
	for server, p := range servers {
		for name := range wants {
			if got := p.answerFor(name); got != "192.0.2.1" {
				t.Errorf("%s, %s: got %s\n%s", server, name, got, p.log.String())
			}
		}
	}
	denies.Store(true)
	time.Sleep(2100 * time.Millisecond)
	for server, p := range servers {
		for name, want := range wants {
			p.eventually(want+" for "+name, func() bool { return p.answerFor(name) == want })
		}
		if out := lookupAt(t, p.addr); !strings.Contains(out,
			`# extended error of reply 1: 3 Stale Answer: "last known good answer: its servers deny it now"`) {
			t.Errorf("%s: %s", server, out)
		}
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
