// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"strings"
	"testing"
)

// TestResolve_ReverseZones compares the replies for SOA, NS and PTR above, at and below the apex of
// a reverse zone, with and without reverseCIDRs. A stub domain has the names around it. The cluster
// DNS and a node cache give the same replies.
func TestResolve_ReverseZones(t *testing.T) {
	const cluster = "namespace shop\nservice shop/web 10.96.0.7\n" +
		"service shop/db\nslice shop/db 8.8.4.4\nloaded"
	const (
		soa    = "96.10.in-addr.arpa. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5\n"
		ns     = "96.10.in-addr.arpa. 5 IN NS ns.dns.cluster.local.\n"
		ptr    = "7.0.96.10.in-addr.arpa. 5 IN PTR web.shop.svc.cluster.local.\n"
		tenant = "4.4.8.8.in-addr.arpa. 5 IN PTR 8-8-4-4.db.shop.svc.cluster.local.\n"
		other  = "another server"
	)
	questions := map[string]struct{ inRange, without string }{
		"10.in-addr.arpa. SOA":         {other, other},
		"10.in-addr.arpa. NS":          {other, other},
		"10.in-addr.arpa. PTR":         {other, other},
		"96.10.in-addr.arpa. SOA":      {"NOERROR\n" + soa, other},
		"96.10.in-addr.arpa. NS":       {"NOERROR\n" + ns, other},
		"96.10.in-addr.arpa. PTR":      {"NOERROR\nauthority: " + soa, other},
		"0.96.10.in-addr.arpa. SOA":    {"NOERROR\nauthority: " + soa, other},
		"0.96.10.in-addr.arpa. NS":     {"NOERROR\nauthority: " + soa, other},
		"7.0.96.10.in-addr.arpa. PTR":  {"NOERROR\n" + ptr, "NOERROR\n" + ptr},
		"8.0.96.10.in-addr.arpa. PTR":  {"NXDOMAIN\nauthority: " + soa, other},
		"8.0.96.10.in-addr.arpa. SOA":  {"NXDOMAIN\nauthority: " + soa, other},
		"1.0.112.10.in-addr.arpa. PTR": {other, other},
		"8.in-addr.arpa. SOA":          {other, other},
		"4.8.8.in-addr.arpa. NS":       {other, other},
		"4.4.8.8.in-addr.arpa. PTR":    {other, "NOERROR\n" + tenant},
	}
	for _, reverse := range [][]netip.Prefix{{netip.MustParsePrefix("10.96.0.0/12")}, nil} {
		for _, stubZone := range []string{"10.in-addr.arpa", "example"} {
			stubs := []Stub{{Zone: mustName(t, stubZone), Exchange: namedServer("stub")}}
			server := newServer(t, "", Config{Zone: newZone(t, reverse, cluster), Upstream: namedServer("upstream"), Stubs: stubs})
			c := &clusterDNS{Server: server}
			node := newNodeCache(t, c.forwarding(t, namedServer("upstream")))
			for question, want := range questions {
				for name, s := range map[string]*Server{"cluster DNS": server, "node cache": node.Server} {
					got := withoutGlue(replyText(exchangeDirect(t, s, parseQuery(question, true))))
					expect := want.inRange
					if reverse == nil {
						expect = want.without
					}
					if strings.Contains(got, "authority: . 60 IN SOA . .") {
						got = other
					}
					if got != expect {
						t.Errorf("%s, ranges %v, stub domain %s: %s: got %s, want %s", name, reverse, stubZone, question, got, expect)
					}
				}
			}
		}
	}
}

// withoutGlue returns the text of a reply without its flags and its additional section.
func withoutGlue(text string) string {
	text, _, _ = strings.Cut(text, "additional: ")
	return strings.Replace(text, " aa\n", "\n", 1)
}
