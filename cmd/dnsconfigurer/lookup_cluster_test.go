// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestJudge has what no script can say: a server that asks for several names to answer
// one query, and names in another case.
func TestJudge(t *testing.T) {
	cluster := netip.MustParseAddr("10.96.0.10")
	search, err := autopath.NewZone(dnsserver.DefaultAutopathSuffix, fqdn.Join(fqdn.Root, "cluster", "local"))
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{
		search: search, hostSuffixes: []fqdn.Name{fqdn.Join(fqdn.Root, "x", "corp"), fqdn.Join(fqdn.Root, "corp")},
		addrs: []netip.Addr{cluster}, unasked: map[*dns.Msg][]dns.Question{},
	}
	query := func(name string, missed ...string) libc.Query {
		q := libc.Query{Name: name, Server: cluster, Reply: new(dns.Msg)}
		var questions []dns.Question
		for _, m := range missed {
			questions = append(questions, dns.Question{Name: m, Qtype: dns.TypeA, Qclass: dns.ClassINET})
		}
		if missed != nil {
			s.lacks(q.Reply, questions)
		}
		return q
	}
	const expanded = "a.b.search.shop.cluster.local.ap.k8s.io."
	found := query(expanded, "a.b.x.corp.")
	found.Reply.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: expanded, Rrtype: dns.TypeCNAME}, Target: "a.b.corp."}}
	type want struct {
		open     string
		queries  int
		ifAbsent int
		upstream int
		notAsked []string
		absent   []string
	}
	for name, tt := range map[string]struct {
		lookup  string
		queries []libc.Query
		err     libc.Error
		want    want
	}{
		"all are asked": {"a", []libc.Query{query("a.x."), query("a.")}, libc.NoName, want{queries: 2, ifAbsent: 2}},
		"found after what was taken to be absent": {
			"a", []libc.Query{query("a.x.", "a.x."), query("a.")}, "",
			want{queries: 2, ifAbsent: 2, upstream: 1, notAsked: []string{"a.x."}, absent: []string{"a.x."}},
		},
		"the server would have tried the name itself": {
			"a.b", []libc.Query{query(expanded, "a.b.x.corp.", "a.b."), query(expanded, "a.b.x.corp.", "a.b."), query("a.b.", "a.b.")}, libc.NoName,
			want{"a.b.", 2, 3, 2, []string{"a.b.x.corp.", "a.b."}, []string{"a.b.x.corp."}},
		},
		"the server found another behind it": {
			"a.b", []libc.Query{found}, "", want{"", 1, 1, 1, []string{"a.b.x.corp."}, []string{"a.b.x.corp."}},
		},
		"the server was led elsewhere": {
			"a.b", []libc.Query{query(expanded, "a.b.example."), query("a.b.", "a.b.")}, libc.NoName,
			want{"a.b.example.", 1, 2, 1, []string{"a.b.example."}, nil},
		},
		"the server writes it in small letters": {
			"A.b", []libc.Query{query("A.b.", "a.b."), query("A.b.x.")}, libc.NoName,
			want{"A.b.", 1, 2, 1, []string{"a.b."}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := s.judge(tt.lookup, libc.Result{Queries: tt.queries, Error: tt.err})
			got := want{p.open, len(p.Queries), p.ifAbsent, p.upstream, p.notAsked, p.absent}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
