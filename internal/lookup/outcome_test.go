// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// testQuery is a query of a lookup with the names that were not asked for.
type testQuery struct {
	libc.Query
	missing []string
}

// TestNewOutcome_Dependencies has the cases that no script of the command reaches: several
// missing names for one query, and names in another case.
func TestNewOutcome_Dependencies(t *testing.T) {
	cluster := newTestCluster(t)
	query := func(name string, missing ...string) testQuery {
		return testQuery{libc.Query{Name: name, Server: cluster.addrs[0], Reply: new(dns.Msg)}, missing}
	}
	const expanded = "a.b.search.shop.cluster.local.ap.k8s.io."
	found := query(expanded, "a.b.x.corp.")
	found.Reply.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: expanded, Rrtype: dns.TypeCNAME}, Target: "a.b.corp."}}
	overtaken := testQuery{libc.Query{Name: "a.", Server: netip.MustParseAddr("192.0.2.1"), Err: libc.ErrOvertaken}, nil}
	type want struct {
		Open        string
		Queries     int
		OpenQueries int
		Forwarded   int
		NotAsked    []string
		Assumed     []string
	}
	for name, tt := range map[string]struct {
		lookup  string
		queries []testQuery
		err     libc.Error
		want    want
	}{
		"all names are asked for": {"a", []testQuery{query("a.x."), query("a.")}, libc.NoName, want{Queries: 2, OpenQueries: 2}},
		"found after a name that is assumed not to exist": {
			"a", []testQuery{query("a.x.", "a.x."), query("a.")}, "",
			want{Queries: 2, OpenQueries: 2, Forwarded: 1, NotAsked: []string{"a.x."}, Assumed: []string{"a.x."}},
		},
		"the server would try the name itself": {
			"a.b", []testQuery{query(expanded, "a.b.x.corp.", "a.b."),
				query(expanded, "a.b.x.corp.", "a.b."), query("a.b.", "a.b.")}, libc.NoName,
			want{"a.b.", 2, 3, 2, []string{"a.b.x.corp.", "a.b."}, []string{"a.b.x.corp."}},
		},
		"the server found a later candidate": {
			"a.b", []testQuery{found}, "", want{"", 1, 1, 1, []string{"a.b.x.corp."}, []string{"a.b.x.corp."}},
		},
		"the server found an alias": {
			"a.b", []testQuery{query(expanded, "a.b.example."), query("a.b.", "a.b.")}, libc.NoName,
			want{"a.b.example.", 1, 2, 1, []string{"a.b.example."}, nil},
		},
		"the server returns the name in lower case": {
			"A.b", []testQuery{query("A.b.", "a.b."), query("A.b.x.")}, libc.NoName,
			want{"A.b.", 1, 2, 1, []string{"a.b."}, nil},
		},
		"another nameserver was overtaken": {"a", []testQuery{overtaken, query("a.")}, libc.NoName, want{Queries: 2, OpenQueries: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			r, missing := result(tt.queries, tt.err)
			o := cluster.newOutcome(tt.lookup, r, missing)
			got := want{o.open, len(o.Queries), o.openQueries, o.forwarded, o.notAsked, o.assumed}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkNotAsked(t, tt.queries, o.Queries)
		})
	}
}

// result returns the result of a library, and the questions that were not asked.
func result(queries []testQuery, err libc.Error) (libc.Result, [][]dns.Question) {
	r := libc.Result{Error: err}
	var missing [][]dns.Question
	for _, q := range queries {
		r.Queries = append(r.Queries, q.Query)
		var list []dns.Question
		for _, name := range q.missing {
			list = append(list, dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET})
		}
		missing = append(missing, list)
	}
	return r, missing
}

// checkNotAsked checks that a query has the rcode "not asked" if it was overtaken, or if
// its reply is empty for want of a question that was not asked.
func checkNotAsked(t *testing.T, queries []testQuery, got []libc.Query) {
	t.Helper()
	for i, q := range got {
		before := queries[i]
		empty := before.missing != nil && len(before.Reply.Answer) == 0
		if want := empty || errors.Is(before.Err, libc.ErrOvertaken); (rcode(q) == "not asked") != want {
			t.Errorf("query %d has the rcode %s", i, rcode(q))
		}
	}
}

func newTestCluster(t *testing.T) *clusterDNS {
	t.Helper()
	search := must.Get(autopath.NewZone(fqdn.Join(fqdn.Root, "cluster", "local")))(t)
	corp := fqdn.Join(fqdn.Root, "corp")
	return &clusterDNS{search: search, hostSuffixes: []fqdn.Name{fqdn.Join(corp, "x"), corp},
		addrs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, catalog: &catalog{suffix: ".svc.cluster.local."}}
}
