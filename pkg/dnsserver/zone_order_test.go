// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// namedServer is an upstream server for which every name exists, with its own name as TXT record.
func namedServer(name string) Exchange {
	return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeTXT {
			m.Answer = []dns.RR{&dns.TXT{Hdr: header(q.Question[0].Name, dns.TypeTXT, 60), Txt: []string{name}}}
		} else {
			m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
		}
		return m, nil
	}
}

// answeredBy returns what answers a TXT query for a name: a named server, "local" for a local
// zone, "zone" for the cluster DNS itself, or the rcode.
func answeredBy(t *testing.T, s *Server, name string) string {
	t.Helper()
	m := exchangeDirect(t, s, newQuery(name, dns.TypeTXT))
	for _, rr := range m.Answer {
		if txt, ok := rr.(*dns.TXT); ok {
			return txt.Txt[0]
		}
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok && soa.Mbox == "nobody.invalid." {
			return "local"
		} else if ok && strings.HasPrefix(soa.Mbox, "hostmaster.") {
			return "zone"
		}
	}
	return dns.RcodeToString[m.Rcode]
}

// TestResolve_LongestZone: the longest zone that contains a name answers it, in the cluster DNS
// and in a node cache. testdata/zones.txt has the names.
func TestResolve_LongestZone(t *testing.T) {
	stubZones := []string{
		"consul.cluster.local", "local", "10.in-addr.arpa", "7.97.10.in-addr.arpa",
		"0.0.127.in-addr.arpa", "corp.test", "home.arpa", "example", "de.eu.example", "eu.example",
	}
	const cluster = `
namespace shop
service shop/web 10.96.0.7
service shop/consul external=x.consul.cluster.local
service shop/corp external=www.corp.test
service shop/local external=www.test
loaded`
	reverse := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	var stubs []Stub
	for _, z := range stubZones {
		stubs = append(stubs, Stub{Zone: mustName(t, z), Exchange: namedServer(z)})
	}
	dnsServer := newServer(t, "",
		Config{Zone: newZone(t, reverse, cluster), Upstream: namedServer("upstream"), Stubs: stubs, LocalNames: true})
	c := &clusterDNS{Server: dnsServer}
	nodeStubs := []Stub{{Zone: clusterDomain, Exchange: c.exchange}, {Zone: zone.InAddrArpa, Exchange: c.exchange},
		{Zone: zone.IP6Arpa, Exchange: c.exchange}}
	for _, p := range reverse {
		for _, name := range zone.ReverseZones(p) {
			nodeStubs = append(nodeStubs, Stub{Zone: name, Exchange: c.exchange})
		}
	}
	node := newCachingServer(t, Config{Autopath: Autopath{Allowed: []netip.Prefix{}}, LocalNames: true})
	node.SetForwarding(Forwarding{Upstream: namedServer("upstream"), Stubs: append(nodeStubs, stubs...), Expander: c.exchange})

	text := must.Get(os.ReadFile("testdata/zones.txt"))(t)
	_, lines, _ := strings.Cut(string(text), "\n")
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for name, s := range map[string]*Server{"cluster DNS": dnsServer, "node cache": node.Server} {
			if got := answeredBy(t, s, words[0]); got != words[1] {
				t.Errorf("%s: %s is answered by %s, want %s", name, words[0], got, words[1])
			}
		}
	}
}

// TestResolve_ExternalZone: a stub domain in an external zone has its names, and one above does not.
func TestResolve_ExternalZone(t *testing.T) {
	s := newServer(t, "", Config{Zone: newZone(t, nil, "loaded", mustName(t, "lb.example"), mustName(t, "lb.test")),
		Upstream: namedServer("upstream"), LocalNames: true,
		Stubs: []Stub{{Zone: mustName(t, "example"), Exchange: namedServer("above")},
			{Zone: mustName(t, "x.lb.example"), Exchange: namedServer("below")}}})
	for name, want := range map[string]string{
		"lb.example.": "zone", "web.shop.lb.example.": "zone", "web.lb.test.": "zone", "www.test.": "local",
		"a.x.lb.example.": "below", "xlb.example.": "above", "www.other.": "upstream",
	} {
		if got := answeredBy(t, s, name); got != want {
			t.Errorf("%s is answered by %s, want %s", name, got, want)
		}
	}
}

// TestLocalNames_Stubs: names of local zones are forwarded with the option off, and in a stub domain of the same name or a
// longer one. The golden file local-names has the replies.
func TestLocalNames_Stubs(t *testing.T) {
	for _, z := range []string{
		"invalid.", "test.", "onion.", "home.arpa.", "0.in-addr.arpa.", "127.in-addr.arpa.", "254.169.in-addr.arpa.",
		"2.0.192.in-addr.arpa.", "100.51.198.in-addr.arpa.", "113.0.203.in-addr.arpa.", "255.255.255.255.in-addr.arpa.",
		reverseName("::"), "8.e.f.ip6.arpa.", "b.e.f.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "0.f.f.f.3.ip6.arpa.",
	} {
		for _, other := range []struct {
			config Config
			want   string
		}{
			{Config{}, "upstream"},
			{Config{LocalNames: true, Stubs: []Stub{{Zone: mustName(t, z), Exchange: namedServer("stub")}}}, "stub"},
			{Config{LocalNames: true, Stubs: []Stub{{Zone: mustName(t, "9."+z), Exchange: namedServer("stub")}}}, "stub"},
		} {
			other.config.Zone, other.config.Upstream = newZone(t, nil, "loaded"), namedServer("upstream")
			if got := answeredBy(t, newServer(t, "", other.config), "9."+z); got != other.want {
				t.Errorf("9.%s with %v and %d stub domains: answered by %s, want %s", z,
					other.config.LocalNames, len(other.config.Stubs), got, other.want)
			}
		}
	}
}

// TestLocalNames_FastPath: no name costs an allocation to find out that it is not local.
func TestLocalNames_FastPath(t *testing.T) {
	zones := newLocalZones(true)
	www, reverse := mustName(t, "www.example.com"), mustName(t, "8.8.8.8.in-addr.arpa")
	if n := testing.AllocsPerRun(100, func() {
		if zones.find(www) != "" || zones.find(reverse) != "" {
			t.Error("found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
