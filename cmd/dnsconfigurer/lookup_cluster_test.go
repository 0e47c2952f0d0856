// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/libc"
)

// TestJudge has what no script can say: a server that asks for several names to answer
// one query, and names in another case.
func TestJudge(t *testing.T) {
	cluster := netip.MustParseAddr("10.96.0.10")
	s := &standIn{addrs: []netip.Addr{cluster}, unasked: map[*dns.Msg][]string{}}
	query := func(name string, missed ...string) libc.Query {
		q := libc.Query{Name: name, Server: cluster, Reply: new(dns.Msg)}
		if missed != nil {
			s.lacks(q.Reply, missed)
		}
		return q
	}
	type want struct {
		open     string
		queries  int
		ifAbsent int
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
			want{queries: 2, ifAbsent: 2, notAsked: []string{"a.x."}, absent: []string{"a.x."}},
		},
		"the server would have tried the name itself": {
			"a.b", []libc.Query{query("a.b.search.", "a.b.corp.", "a.b."), query("a.b.search.", "a.b.corp.", "a.b."), query("a.b.", "a.b.")}, libc.NoName,
			want{"a.b.", 2, 3, []string{"a.b.corp.", "a.b."}, []string{"a.b.corp."}},
		},
		"the server writes it in small letters": {
			"A.b", []libc.Query{query("A.b.", "a.b."), query("A.b.x.")}, libc.NoName,
			want{"A.b.", 1, 2, []string{"a.b."}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := s.judge(tt.lookup, libc.Result{Queries: tt.queries, Error: tt.err})
			got := want{p.open, len(p.Queries), p.ifAbsent, p.notAsked, p.absent}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
