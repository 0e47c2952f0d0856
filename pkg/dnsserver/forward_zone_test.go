// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestForward_Authoritative: the targets of aliases in a zone of the server's own are looked up wherever they are, and
// queries without RD get an answer, too.
func TestForward_Authoritative(t *testing.T) {
	targets := map[string]string{"a": "www.example.", "c": "d.corp.example.", "d": "c.corp.example.", "e": "no.example."}
	corp := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		m, h := new(dns.Msg).SetReply(q), header(q.Question[0].Name, dns.TypeCNAME, 60)
		m.Answer = []dns.RR{&dns.CNAME{Hdr: h, Target: targets[h.Name[:1]]}}
		return m, nil
	}
	all := parseRecords(t, "www.example. 60 IN A 192.0.2.1\n")
	s := newCachingServer(t, Config{Upstream: all.exchange})
	s.SetForwarding(Forwarding{Upstream: all.exchange, Stubs: []Stub{{Zone: mustName(t, "corp.example"), Authoritative: true,
		Exchange: corp}}})
	for question, want := range map[string]string{
		"a.corp.example. A":     "NOERROR CNAME A 192.0.2.1",
		"a.corp.example. AAAA":  "NOERROR CNAME",
		"a.corp.example. CNAME": "NOERROR CNAME",
		"c.corp.example. A":     "SERVFAIL",
		"e.corp.example. A":     "NXDOMAIN CNAME",
	} {
		for _, recursion := range []bool{false, true} {
			name, qtype, _ := strings.Cut(question, " ")
			q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
			q.RecursionDesired = recursion
			m := exchangeDirect(t, s.Server, q)
			got := dns.RcodeToString[m.Rcode]
			for _, rr := range m.Answer {
				got += " " + dns.Type(rr.Header().Rrtype).String()
				if a, ok := rr.(*dns.A); ok {
					got += " " + a.A.String()
				}
			}
			if recursion && got != want || !recursion && m.Rcode == dns.RcodeRefused {
				t.Errorf("%s, RD %t: got %s, want %s", question, recursion, got, want)
			}
		}
	}
}

// TestHandle_Chaos: only a server with Config.Chaos answers queries about itself.
func TestHandle_Chaos(t *testing.T) {
	for _, tt := range []struct {
		chaos, name string
		qtype       uint16
		want        string
	}{
		{"", "version.bind.", dns.TypeTXT, "REFUSED"},
		{"x 1", "Version.bind.", dns.TypeTXT, "NOERROR Version.bind.\t0\tCH\tTXT\t\"x 1\""},
		{"x 1", "version.server.", dns.TypeTXT, "NOERROR version.server.\t0\tCH\tTXT\t\"x 1\""},
		{"x 1", "id.server.", dns.TypeTXT, "NOERROR id.server.\t0\tCH\tTXT\t"},
		{"x 1", "hostname.bind.", dns.TypeTXT, "NOERROR hostname.bind.\t0\tCH\tTXT\t"},
		{"x 1", "authors.bind.", dns.TypeTXT, "REFUSED"},
		{"x 1", "version.bind.", dns.TypeA, "REFUSED"},
	} {
		q := new(dns.Msg).SetQuestion(tt.name, tt.qtype)
		q.Question[0].Qclass = dns.ClassCHAOS
		m := exchangeDirect(t, newServer(t, "loaded", Config{Chaos: tt.chaos}), q)
		got := dns.RcodeToString[m.Rcode]
		for _, rr := range m.Answer {
			got += " " + rr.String()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q, %s: got %s, want %s", tt.chaos, tt.name, got, tt.want)
		}
	}
}
