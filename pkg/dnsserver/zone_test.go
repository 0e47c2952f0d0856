// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// TestZone_NotLoaded: until the zone is loaded, all of the cluster's names get SERVFAIL, also
// those that exist already. None is forwarded. All other names are: www.example exists, others do not.
func TestZone_NotLoaded(t *testing.T) {
	const always = "web.default.svc.cluster.local. none.default.svc.cluster.local. WWW.example.cluster.LOCAL. cluster.local. "
	for _, tt := range []struct {
		name             string
		reverse          []netip.Prefix
		fails, forwarded string // names
	}{
		{"default ranges", nil, always + "dns-version.cluster.local. 10-0-0-1.default.pod.cluster.local. 1.0.0.10.in-addr.arpa. " +
			"255.255.31.172.in-addr.arpa. 0.0.168.192.in-addr.arpa. 0.0.64.100.in-addr.arpa. 255.255.127.100.in-addr.arpa. " +
			reverseName("fdff::1"),
			"local. notcluster.local. web.default.svc.cluster.local.example. web.default.svc.cluster.local.notours. www.example. " +
				"d.f.ip6.arpa. 0.0.32.172.in-addr.arpa. 255.255.15.172.in-addr.arpa. 0.0.128.100.in-addr.arpa. " +
				"255.255.63.100.in-addr.arpa. 1.0.0.11.in-addr.arpa. " + reverseName("fe80::1")},
		{"--reverse-cidr", []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
			always + "1.0.99.10.in-addr.arpa. 1.0.111.10.in-addr.arpa.", "1.0.112.10.in-addr.arpa. 1.0.168.192.in-addr.arpa."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upstream := parseRecords(t, "www.example. 60 IN A 192.0.2.1\nwww.example. 60 IN PTR a.\nwww.example. 60 IN HINFO a b")
			s := newTestServer(t, "", Config{Zone: newZone(t, tt.reverse, webService), Upstream: upstream.exchange})
			s.serveOn(t, "127.0.0.1:0")
			s.forEachTransport(t, func(t *testing.T, edns bool, exchange func(string) *dns.Msg) {
				for _, qtype := range []string{" A", " PTR", " ANY"} {
					for name := range strings.FieldsSeq(tt.fails) {
						reply := exchange(name + qtype)
						if replyText(reply) != "SERVFAIL\n" || (extendedCode(reply) == int(dns.ExtendedErrorCodeNotReady)) != edns {
							t.Errorf("%s%s: got %v, want SERVFAIL", name, qtype, reply)
						}
					}
					if qtype == " ANY" {
						continue // never forwarded (RFC 8482)
					}
					for name := range strings.FieldsSeq(tt.forwarded) {
						want := dns.RcodeNameError
						if name == "www.example." {
							want = dns.RcodeSuccess
						}
						if reply := exchange(name + qtype); reply.Rcode != want {
							t.Errorf("%s%s: got %s, want %s", name, qtype, replyText(reply), dns.RcodeToString[want])
						}
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
