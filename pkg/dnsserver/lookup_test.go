// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestWalk_HeaderFlags: queries of a walk have DO and CD as the client's query. The reply never has
// AD, although all its parts may be authentic.
func TestWalk_HeaderFlags(t *testing.T) {
	records := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1")
	for bits := range 4 {
		do, cd := bits&1 != 0, bits&2 != 0
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if q.IsEdns0().Do() != do || q.CheckingDisabled != cd {
				t.Errorf("client with DO %t and CD %t: upstream got %v", do, cd, q)
			}
			m, err := records.exchange(ctx, q)
			m.AuthenticatedData = true
			return m, err
		}
		s := newServer(t, "loaded", Config{Upstream: upstream})
		for _, q := range []*dns.Msg{newQuery(autopathName("www.example.net", "shop"), dns.TypeA),
			newQuery("www.example.net.", dns.TypeA, "example")} {
			q.CheckingDisabled, q.AuthenticatedData = cd, true
			if do {
				q.IsEdns0().SetDo()
			}
			m := exchangeDirect(t, s, q)
			if m.AuthenticatedData || m.CheckingDisabled != cd || m.IsEdns0().Do() != do || m.Rcode != dns.RcodeSuccess {
				t.Errorf("client with DO %t and CD %t: got %v, want the same flags and no AD", do, cd, m)
			}
		}
	}
}

// TestWalk_Metrics checks how many candidates walks try, and how many queries they send.
func TestWalk_Metrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newServer(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded",
		Config{Register: registry, Upstream: parseRecords(t, "a.example. 300 IN A 192.0.2.1").exchange,
			Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "example")}}})
	for _, name := range []string{"web", "a", "a", "shop", "absent"} {
		exchangeDirect(t, s, newQuery(autopathName(name, "shop"), dns.TypeA))
	}
	exchangeDirect(t, s, newQuery("web.", dns.TypeA, "svc.cluster.local,shop.svc.cluster.local"))
	exchangeVia(t, s, overUDP, netip.MustParseAddr("2001:db8::1"), newQuery("web.", dns.TypeA, "shop.svc.cluster.local"))
	got := map[string]float64{}
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "dnsconfigurer_dns_autopath_")
		for _, m := range f.GetMetric() {
			series := name
			for _, l := range m.GetLabel() {
				series += " " + l.GetValue()
			}
			if n := m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum(); ok && n > 0 {
				got[series] = n
			}
			for _, b := range m.GetHistogram().GetBucket() {
				if ok && b.GetUpperBound() == 2 {
					got[series+" at most 2"] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	// Candidates: 1 for web, 5 for a and 4 once it is cached, 5 each for shop and
	// absent, 2 for the option. Questions: A of a.example and of "a." at first, then the
	// same of shop and absent.
	want := map[string]float64{"expansions_total name absent": 1, "expansions_total name found": 3, "expansions_total name nodata": 1,
		"expansions_total option found": 1, "candidates": 22, "candidates at most 2": 2, "questions": 6, "questions at most 2": 6,
		"ignored_total source": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
