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

// TestZone_NotLoaded: until the zone is loaded, all of the cluster's names get SERVFAIL, also
// those that exist already. None is forwarded. All other names are.
func TestZone_NotLoaded(t *testing.T) {
	const (
		servfail = "SERVFAIL"
		noerror  = "NOERROR"
		nxdomain = "NXDOMAIN"
	)
	defaultRanges := map[string]string{
		"web.default.svc.cluster.local. A":           servfail, // exists in the zone already
		"none.default.svc.cluster.local. A":          servfail,
		"WWW.example.cluster.LOCAL. AAAA":            servfail, // with a search domain appended
		"cluster.local. SOA":                         servfail,
		"dns-version.cluster.local. TXT":             servfail,
		"10-0-0-1.default.pod.cluster.local. A":      servfail,
		"web.default.svc.cluster.local. ANY":         servfail,
		"1.0.0.10.in-addr.arpa. PTR":                 servfail,
		"255.255.31.172.in-addr.arpa. PTR":           servfail,
		"0.0.168.192.in-addr.arpa. PTR":              servfail,
		"0.0.64.100.in-addr.arpa. PTR":               servfail,
		"255.255.127.100.in-addr.arpa. PTR":          servfail,
		"d.f.ip6.arpa. PTR":                          nxdomain, // not the name of an address: forwarded
		reverseName("fdff::1") + " PTR":              servfail,
		"0.0.32.172.in-addr.arpa. PTR":               nxdomain, // next to the ranges: forwarded
		"255.255.15.172.in-addr.arpa. PTR":           nxdomain,
		"0.0.128.100.in-addr.arpa. PTR":              nxdomain,
		"255.255.63.100.in-addr.arpa. PTR":           nxdomain,
		reverseName("fe80::1") + " PTR":              nxdomain,
		"1.0.0.11.in-addr.arpa. PTR":                 nxdomain,
		"www.example. A":                             noerror,
		"none.example. A":                            nxdomain,
		"local. A":                                   nxdomain, // not below the cluster domain
		"notcluster.local. A":                        nxdomain,
		"web.default.svc.cluster.local.example. A":   nxdomain,
		"53.2.0.192.in-addr.arpa. PTR":               noerror,
		"web.default.svc.cluster.local.notours. TXT": nxdomain,
	}
	configuredRange := map[string]string{
		"web.default.svc.cluster.local. A": servfail,
		"1.0.99.10.in-addr.arpa. PTR":      servfail,
		"1.0.111.10.in-addr.arpa. PTR":     servfail,
		"1.0.112.10.in-addr.arpa. PTR":     nxdomain,
		"1.0.168.192.in-addr.arpa. PTR":    nxdomain,
	}
	for _, tt := range []struct {
		name    string
		reverse []netip.Prefix
		want    map[string]string
	}{{"default ranges", nil, defaultRanges}, {"--reverse-cidr", []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, configuredRange}} {
		t.Run(tt.name, func(t *testing.T) {
			upstream := parseRecords(t, "www.example. 60 IN A 192.0.2.1\n53.2.0.192.in-addr.arpa. 60 IN PTR www.example.")
			s := newTestServer(t, "", Config{Zone: newZone(t, tt.reverse, webService), Upstream: upstream.exchange})
			s.serveOn(t, "127.0.0.1:0")
			s.forEachTransport(t, func(t *testing.T, edns bool, exchange func(string) *dns.Msg) {
				for question, want := range tt.want {
					reply := exchange(question)
					if got := dns.RcodeToString[reply.Rcode]; got != want || want == servfail &&
						(len(reply.Answer)+len(reply.Ns) > 0 || reply.Authoritative) {
						t.Errorf("%s: got %s, want %s", question, replyText(reply), want)
					}
					code := -1
					if edns && want == servfail {
						code = int(dns.ExtendedErrorCodeNotReady)
					}
					if extendedCode(reply) != code {
						t.Errorf("%s: got the extended error %d, want %d", question, extendedCode(reply), code)
					}
				}
			})
			s.cfg.Zone.Update(2, func(e *zone.Edit) { e.SetLoaded() })
			if got := replyText(s.exchange(t, "udp", parseQuery("web.default.svc.cluster.local. A", false))); got != "NOERROR aa\n"+
				"web.default.svc.cluster.local. 5 IN A 10.96.0.7\n" {
				t.Errorf("after loading: got %s, want 10.96.0.7", got)
			}
		})
	}
}

func reverseName(addr string) string {
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		panic(err)
	}
	return name
}

// TestZone_Stale: an old snapshot is served with the usual TTL, but its negative TTL is at most
// 5 seconds: the smaller of TTL and minimum of the SOA record (RFC 2308 section 5).
func TestZone_Stale(t *testing.T) {
	for _, tt := range []struct{ ttl, fresh, stale uint32 }{{0, 0, 0}, {4, 4, 4}, {5, 5, 5}, {6, 6, 5}, {3600, 3600, 5}} {
		s := newTestServer(t, smallCluster, Config{})
		s.cfg.TTL = tt.ttl
		s.serveOn(t, "127.0.0.1:0")
		expectNegativeTTL := func(state string, want uint32) {
			t.Helper()
			s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
				for _, question := range []string{"none.default.svc.cluster.local. A",
					"web.default.svc.cluster.local. TXT", "1.0.97.10.in-addr.arpa. PTR"} {
					soa, ok := exchange(question).Ns[0].(*dns.SOA)
					if !ok || min(soa.Hdr.Ttl, soa.Minttl) != want {
						t.Errorf("--ttl %d, %s: %s: got %v, want a negative TTL of %d s", tt.ttl, state, question, soa, want)
					}
				}
				if a := exchange("web.default.svc.cluster.local. A"); len(a.Answer) != 1 || a.Answer[0].Header().Ttl != tt.ttl {
					t.Errorf("--ttl %d, %s: got %s, want the TTL %d", tt.ttl, state, replyText(a), tt.ttl)
				}
			})
		}
		expectNegativeTTL("fresh", tt.fresh)
		s.cfg.Zone.Update(2, func(e *zone.Edit) { e.SetStale(time.Now().Add(-time.Hour)) })
		expectNegativeTTL("stale", tt.stale)
		s.cfg.Zone.Update(3, func(e *zone.Edit) { e.SetLoaded() })
		expectNegativeTTL("fresh again", tt.fresh)
	}
}
