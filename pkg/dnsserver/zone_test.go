// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
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

// specExample is an example of Kubernetes DNS-Based Service Discovery 1.1.0: the clause, the
// question and the answer as in the text, and a cluster that has this answer.
type specExample struct {
	clause, question string
	answer           []string
	cluster          string
}

// specExamples are all examples of the text. They contradict each other on addresses, so each has
// its own cluster.
var specExamples = []specExample{
	{"2.2", "dns-version.cluster.local. IN TXT",
		[]string{`dns-version.cluster.local. 28800 IN TXT "1.1.0"`}, ""},
	{"2.3.1 IPv4", "kubernetes.default.svc.cluster.local. IN A",
		[]string{"kubernetes.default.svc.cluster.local. 4 IN A 10.3.0.1"},
		"service default/kubernetes 10.3.0.1 https:tcp:443"},
	{"2.3.1 IPv6", "kubernetes.default.svc.cluster.local. IN AAAA",
		[]string{"kubernetes.default.svc.cluster.local. 4 IN AAAA 2001:db8::1"},
		"service default/kubernetes 2001:db8::1 https:tcp:443"},
	{"2.3.2", "_https._tcp.kubernetes.default.svc.cluster.local. IN SRV",
		[]string{"_https._tcp.kubernetes.default.svc.cluster.local. 30 IN SRV 10 100 443 kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 10.3.0.1 https:tcp:443 :tcp:8443"},
	{"2.3.3 IPv4", "1.0.3.10.in-addr.arpa. IN PTR",
		[]string{"1.0.3.10.in-addr.arpa. 14 IN PTR kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 10.3.0.1 https:tcp:443"},
	{"2.3.3 IPv6", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. IN PTR",
		[]string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 14 IN " +
			"PTR kubernetes.default.svc.cluster.local."},
		"service default/kubernetes 2001:db8::1 https:tcp:443"},
	{"2.4.1 IPv4", "headless.default.svc.cluster.local. IN A",
		[]string{
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.1",
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.2",
			"headless.default.svc.cluster.local. 4 IN A 10.3.0.3",
		}, "service default/headless\nslice default/headless 10.3.0.1 10.3.0.2=my-pet\nslice default/headless 10.3.0.3 10.3.0.4!"},
	{"2.4.1 IPv4, hostname", "my-pet.headless.default.svc.cluster.local. IN A",
		[]string{"my-pet.headless.default.svc.cluster.local. 4 IN A 10.3.0.100"},
		"service default/headless\nslice default/headless 10.3.0.100=my-pet 10.3.0.101 10.3.0.102=my-pet!"},
	{"2.4.1 IPv6", "headless.default.svc.cluster.local. IN AAAA",
		[]string{
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::1",
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::2",
			"headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::3",
		}, "service default/headless\nslice default/headless 2001:db8::1 2001:db8::2\n" +
			"slice default/headless 2001:db8::3=my-pet 2001:db8::4!"},
	{"2.4.1 IPv6, hostname", "my-pet.headless.default.svc.cluster.local. IN AAAA",
		[]string{"my-pet.headless.default.svc.cluster.local. 4 IN AAAA 2001:db8::1"},
		"service default/headless\nslice default/headless 2001:db8::1=my-pet 2001:db8::2"},
	{"2.4.2", "_https._tcp.headless.default.svc.cluster.local. IN SRV",
		[]string{
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 my-pet.headless.default.svc.cluster.local.",
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 my-pet-2.headless.default.svc.cluster.local.",
			"_https._tcp.headless.default.svc.cluster.local. 4 IN SRV 10 100 443 438934893.headless.default.svc.cluster.local.",
		}, "service default/headless https:tcp:443\n" +
			"slice default/headless 10.3.0.100=my-pet 10.3.0.101=my-pet-2 10.3.0.102 10.3.0.103! https:tcp:443 :tcp:80"},
	{"2.4.3 IPv4", "100.0.3.10.in-addr.arpa. IN PTR",
		[]string{"100.0.3.10.in-addr.arpa. 14 IN PTR my-pet.headless.default.svc.cluster.local."},
		"service default/headless\nslice default/headless 10.3.0.100=my-pet"},
	{"2.4.3 IPv6", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. IN PTR",
		[]string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 14 IN " +
			"PTR my-pet.headless.default.svc.cluster.local."},
		"service default/headless\nslice default/headless 2001:db8::1=my-pet"},
	{"2.5 IPv4", "foo.default.svc.cluster.local. IN A",
		[]string{"foo.default.svc.cluster.local. 10 IN CNAME www.example.com.", "www.example.com. 28715 IN A 192.0.2.53"},
		"service default/foo external=www.example.com"},
	{"2.5 IPv6", "foo.default.svc.cluster.local. IN AAAA",
		[]string{"foo.default.svc.cluster.local. 10 IN CNAME www.example.com.", "www.example.com. 28715 IN AAAA 2001:db8::1"},
		"service default/foo external=www.example.com"},
}

// TestZone_SpecificationExamples sends the questions of the text over UDP and TCP, with and
// without EDNS0, also in upper case (clause 2.1: all comparisons are case-insensitive). The
// answers are those of the text, except for what the text does not specify: the TTL in the zone, TTLs of
// other servers above an hour, priority and weight, and the name of an endpoint without hostname,
// 438934893 in the text.
func TestZone_SpecificationExamples(t *testing.T) {
	upstream := parseRecords(t, "www.example.com. 28715 IN A 192.0.2.53\nwww.example.com. 28715 IN AAAA 2001:db8::1")
	for _, e := range specExamples {
		t.Run(e.clause, func(t *testing.T) {
			s := startServer(t, "namespace default\n"+e.cluster+"\nloaded", Config{Upstream: upstream.exchange})
			name, qtype, _ := strings.Cut(e.question, " IN ")
			s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
				for _, owner := range []string{name, strings.ToUpper(name)} {
					s.cache.Clear() // or TTLs have aged
					reply := exchange(owner + " " + qtype)
					var want []string
					for _, line := range e.answer {
						rr, err := dns.NewRR(strings.Replace(line, "438934893.", "10-3-0-102.", 1))
						if err != nil {
							t.Fatal(err)
						}
						want = append(want, specifiedText(rr))
					}
					var got []string
					for _, rr := range reply.Answer {
						got = append(got, specifiedText(rr))
					}
					slices.Sort(got)
					slices.Sort(want)
					if reply.Rcode != dns.RcodeSuccess || !reply.Authoritative || !slices.Equal(got, want) {
						t.Errorf("%s\n got %s\nwant %s", owner, reply, strings.Join(want, "\n"))
					}
				}
			})
		})
	}
}

// specifiedText returns a record as text, without the parts that the text does not specify.
func specifiedText(rr dns.RR) string {
	h := rr.Header()
	h.Name = strings.ToLower(h.Name)
	if srv, ok := rr.(*dns.SRV); ok {
		srv.Priority, srv.Weight = 0, 0
	}
	if h.Rrtype != dns.TypeTXT && strings.HasSuffix(h.Name, ".local.") || h.Rrtype == dns.TypePTR {
		h.Ttl = 0
	}
	h.Ttl = min(h.Ttl, uint32(cache.DefaultMaxTTL/time.Second))
	return rr.String()
}
