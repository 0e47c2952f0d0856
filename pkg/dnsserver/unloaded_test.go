// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// TestNotLoaded: nothing of the cluster is said to be absent, or asked of others, before
// it is known, also when a part of it is; everything else is forwarded.
func TestNotLoaded(t *testing.T) {
	const (
		unknown  = "SERVFAIL"
		existing = "NOERROR"
		absent   = "NXDOMAIN"
	)
	byDefault := map[string]string{
		"web.default.svc.cluster.local. A":           unknown, // it is there already
		"none.default.svc.cluster.local. A":          unknown,
		"WWW.example.cluster.LOCAL. AAAA":            unknown, // a search domain's doing
		"cluster.local. SOA":                         unknown,
		"dns-version.cluster.local. TXT":             unknown,
		"10-0-0-1.default.pod.cluster.local. A":      unknown,
		"web.default.svc.cluster.local. ANY":         unknown,
		"1.0.0.10.in-addr.arpa. PTR":                 unknown,
		"255.255.31.172.in-addr.arpa. PTR":           unknown,
		"0.0.168.192.in-addr.arpa. PTR":              unknown,
		"0.0.64.100.in-addr.arpa. PTR":               unknown,
		"255.255.127.100.in-addr.arpa. PTR":          unknown,
		"d.f.ip6.arpa. PTR":                          unknown,
		reverse("fdff::1") + " PTR":                  unknown,
		"0.0.32.172.in-addr.arpa. PTR":               absent, // the ranges' neighbours, by upstream
		"255.255.15.172.in-addr.arpa. PTR":           absent,
		"0.0.128.100.in-addr.arpa. PTR":              absent,
		"255.255.63.100.in-addr.arpa. PTR":           absent,
		reverse("fe80::1") + " PTR":                  absent,
		"1.0.0.11.in-addr.arpa. PTR":                 absent,
		"www.example. A":                             existing,
		"none.example. A":                            absent,
		"local. A":                                   absent, // above the domain, and beside it
		"notcluster.local. A":                        absent,
		"web.default.svc.cluster.local.example. A":   absent,
		"53.2.0.192.in-addr.arpa. PTR":               existing,
		"web.default.svc.cluster.local.notours. TXT": absent,
	}
	byFlag := map[string]string{
		"web.default.svc.cluster.local. A": unknown,
		"1.0.99.10.in-addr.arpa. PTR":      unknown,
		"1.0.111.10.in-addr.arpa. PTR":     unknown,
		"1.0.112.10.in-addr.arpa. PTR":     absent,
		"1.0.168.192.in-addr.arpa. PTR":    absent,
	}
	for _, tt := range []struct {
		name    string
		reverse []netip.Prefix
		want    map[string]string
	}{{"default ranges", nil, byDefault}, {"--reverse-cidr", []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, byFlag}} {
		t.Run(tt.name, func(t *testing.T) {
			upstream := parseRecords(t, "www.example. 60 IN A 192.0.2.1\n53.2.0.192.in-addr.arpa. 60 IN PTR www.example.")
			s := newTestServer(t, func(c *zone.Config) { c.Reverse = tt.reverse }, "namespace default\nservice default/web 10.96.0.7 http:tcp:80", upstream.exchange)
			s.run(t, "127.0.0.1:0")
			s.everyTransport(t, func(t *testing.T, edns bool, ask func(string) *dns.Msg) {
				for question, want := range tt.want {
					reply := ask(question)
					if got := dns.RcodeToString[reply.Rcode]; got != want || want == unknown && (len(reply.Answer)+len(reply.Ns) > 0 || reply.Authoritative) {
						t.Errorf("%s: want %s, got %s", question, want, text(reply))
					}
					code := -1
					if edns && want == unknown {
						code = int(dns.ExtendedErrorCodeNotReady)
					}
					if why(reply) != code {
						t.Errorf("%s: extended error %d, want %d", question, why(reply), code)
					}
				}
			})
			s.zone.Update(2, func(e *zone.Edit) { e.SetLoaded() })
			if got := text(s.exchange(t, "udp", asking("web.default.svc.cluster.local. A", false))); got != "NOERROR aa\nweb.default.svc.cluster.local. 5 IN A 10.96.0.7\n" {
				t.Errorf("after the first list: %s", got)
			}
		})
	}
}

func reverse(addr string) string {
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		panic(err)
	}
	return name
}

// TestStaleZone: what an old snapshot holds is served as ever, and what it lacks is
// called absent for 5 seconds at most: TTL and minimum of the SOA record (RFC 2308
// section 5: the smaller counts).
func TestStaleZone(t *testing.T) {
	for _, tt := range []struct{ ttl, fresh, stale uint32 }{{0, 0, 0}, {4, 4, 4}, {5, 5, 5}, {6, 6, 5}, {3600, 3600, 5}} {
		s := newTestServer(t, func(*zone.Config) {}, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded", nil)
		s.cfg.TTL = tt.ttl
		s.run(t, "127.0.0.1:0")
		denial := func(state string, want uint32) {
			t.Helper()
			s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
				for _, question := range []string{"none.default.svc.cluster.local. A", "web.default.svc.cluster.local. TXT", "1.0.97.10.in-addr.arpa. PTR"} {
					soa, ok := ask(question).Ns[0].(*dns.SOA)
					if !ok || min(soa.Hdr.Ttl, soa.Minttl) != want {
						t.Errorf("--ttl %d, %s: %s may be kept for %v, want %d s", tt.ttl, state, question, soa, want)
					}
				}
				if a := ask("web.default.svc.cluster.local. A"); len(a.Answer) != 1 || a.Answer[0].Header().Ttl != tt.ttl {
					t.Errorf("--ttl %d, %s: %s", tt.ttl, state, text(a))
				}
			})
		}
		denial("fresh", tt.fresh)
		s.zone.Update(2, func(e *zone.Edit) { e.SetStale(time.Now().Add(-time.Hour)) })
		denial("stale", tt.stale)
		s.zone.Update(3, func(e *zone.Edit) { e.SetLoaded() })
		denial("fresh again", tt.fresh)
	}
}
