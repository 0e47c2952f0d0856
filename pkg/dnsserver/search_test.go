// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestAutopath_Defaults checks valid and invalid configurations on both sides of each limit.
func TestAutopath_Defaults(t *testing.T) {
	suffixes := func(n int) (list []fqdn.Name) {
		for i := range n {
			list = append(list, mustName(t, fmt.Sprintf("d%d.example", i)))
		}
		return list
	}
	tests := []struct {
		config Autopath
		err    string
	}{
		{Autopath{}, ""},
		{Autopath{Option: 65000}, "field Option: 65000: want 65001 to 65534"},
		{Autopath{Option: 65001}, ""},
		{Autopath{Option: 65534}, ""},
		{Autopath{Option: 65535}, "field Option: 65535"},
		{Autopath{HostSuffixes: suffixes(8)}, ""},
		{Autopath{HostSuffixes: suffixes(9)}, "HostSuffixes has 9 domains: want at most 8"},
		{Autopath{HostSuffixes: []fqdn.Name{""}}, "HostSuffixes[0] is empty"},
		{Autopath{Suffix: mustName(t, "local")},
			"cluster domain cluster.local. is below the suffix local.: its names could not be resolved"},
	}
	for _, tt := range tests {
		_, err := tt.config.setDefaults(mustName(t, "cluster.local"))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: got the error %v, want %q", tt.config, err, tt.err)
		}
	}
}

// TestSearch_CustomSuffix: a configured suffix and option replace the default ones.
func TestSearch_CustomSuffix(t *testing.T) {
	s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{Autopath: Autopath{Suffix: mustName(t, "pods.test"), Option: 65001}})
	if m := exchangeDirect(t, s, newQuery("web.search.shop.cluster.local.pods.test.", dns.TypeA)); len(m.Answer) != 2 {
		t.Errorf("configured suffix: got %v, want two records", m)
	}
	if m := exchangeDirect(t, s, newQuery(autopathName("web", "shop"), dns.TypeA)); m.Rcode != dns.RcodeRefused {
		t.Errorf("default suffix: got %v, want REFUSED", m)
	}
	q := newQuery("web.", dns.TypeA, "shop.svc.cluster.local")
	if m := exchangeDirect(t, s, q); len(m.Answer) != 0 {
		t.Errorf("default option: got %v, want no records", m)
	}
	q.IsEdns0().Option[0].(*dns.EDNS0_LOCAL).Code = 65001
	if m := exchangeDirect(t, s, q); len(m.Answer) != 2 {
		t.Errorf("configured option: got %v, want two records", m)
	}
}

// TestSearch_SuffixInClusterDomain: the autopath suffix may be below the cluster domain. Its names
// are then expanded, and not answered from the zone.
func TestSearch_SuffixInClusterDomain(t *testing.T) {
	s := startServer(t, "service shop/web 10.96.0.7\nloaded", Config{Autopath: Autopath{Suffix: mustName(t, "ap.cluster.local")}})
	for _, network := range []string{"udp", "tcp"} {
		m := s.exchange(t, network, newQuery("web.search.shop.cluster.local.ap.cluster.local.", dns.TypeA))
		if len(m.Answer) != 2 {
			t.Errorf("over %s: got %v, want two records", network, m)
		}
	}
}

// TestSearchPaths_Clients: the option is honoured for the endpoints of the node caches, or for
// clients in the allowed networks. Another client gets the answer for the bare name, without echo.
// Autopath names are expanded for all clients: the server has their search list itself.
func TestSearchPaths_Clients(t *testing.T) {
	networks := func(list ...string) []netip.Prefix {
		prefixes := []netip.Prefix{}
		for _, p := range list {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		return prefixes
	}
	const nodes = `
service shop/web 10.96.0.7
service kube-system/node-cache publish
slice kube-system/node-cache 172.18.0.2 172.18.0.3! fd00:18::2
service shop/node-cache
slice shop/node-cache 10.244.1.8
service kube-system/other 172.18.0.9
slice kube-system/other 172.18.0.5
loaded`
	nodeCaches := Autopath{NodeCaches: Service{"kube-system", "node-cache"}}
	allowed := func(list ...string) Autopath {
		return Autopath{NodeCaches: nodeCaches.NodeCaches, Allowed: networks(list...)}
	}
	tests := []struct {
		config Autopath
		client string
		want   bool
	}{
		{nodeCaches, "172.18.0.2", true}, {nodeCaches, "::ffff:172.18.0.2", true}, // at an IPv6 socket for both families
		{nodeCaches, "fd00:18::2", true}, {nodeCaches, "fd00:18::2%eth0", true},
		{nodeCaches, "172.18.0.3", true}, // not ready: its cluster DNS did not answer
		{nodeCaches, "172.18.0.4", false},
		{nodeCaches, "10.244.1.7", false}, // a pod
		{nodeCaches, "10.244.1.8", false}, // a Service of the same name in a tenant's namespace
		{nodeCaches, "172.18.0.5", false}, // another Service of the namespace
		{nodeCaches, "127.0.0.1", false}, {nodeCaches, "::1", false},
		{Autopath{}, "172.18.0.2", false},
		{allowed("192.0.2.0/24"), "192.0.2.1", true}, {allowed("192.0.2.0/24"), "::ffff:192.0.2.1", true},
		{allowed("192.0.2.0/24"), "192.0.3.1", false},
		{allowed("192.0.2.0/24"), "172.18.0.2", false}, // networks replace the endpoints
		{allowed("fe80::/10"), "fe80::1%lo", true},
		{allowed(), "127.0.0.1", false},
	}
	for _, tt := range tests {
		s, err := New(Config{Zone: newZone(t, nil, nodes), Domain: clusterDomain, TTL: 5, Cache: newCachingServer(t, Config{}).cache,
			Upstream: recordSet(nil).exchange, Autopath: tt.config})
		if err != nil {
			t.Fatal(err)
		}
		m := exchangeVia(t, s, overUDP, netip.MustParseAddr(tt.client), newQuery("web.", dns.TypeA, "shop.svc.cluster.local"))
		if found := len(m.Answer) == 2; found != tt.want || isExpanded(m) != tt.want {
			t.Errorf("client %s of %+v: got found %t, expanded %t, want %t", tt.client, tt.config, found, isExpanded(m), tt.want)
		}
		if ignored := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues("source")); (ignored == 0) != tt.want {
			t.Errorf("client %s of %+v: counted %v ignored options", tt.client, tt.config, ignored)
		}
		if m := exchangeVia(t, s, overUDP, netip.MustParseAddr(tt.client),
			newQuery(autopathName("web", "shop"), dns.TypeA)); len(m.Answer) != 2 {
			t.Errorf("client %s, autopath name: got %v, want two records", tt.client, m)
		}
	}
	s := newServer(t, "loaded", Config{})
	if m := exchangeVia(t, s, overUDP, netip.Addr{}, newQuery("cluster.local.", dns.TypeA, "a")); isExpanded(m) {
		t.Error("the option of a client with unknown address is not ignored")
	}
}

// TestSearchPaths_DeletedNode: the option of a node cache is honoured until its endpoint is deleted.
func TestSearchPaths_DeletedNode(t *testing.T) {
	z := newZone(t, nil, "service shop/web 10.96.0.7\nservice kube-system/node-cache\nloaded")
	s := newServer(t, "", Config{Zone: z, Autopath: Autopath{NodeCaches: Service{"kube-system", "node-cache"}}})
	node := netip.MustParseAddr("172.18.0.2")
	slice := zone.EndpointSlice{Namespace: "kube-system", Name: "node-cache-x", Service: "node-cache",
		Endpoints: []zone.Endpoint{{Addr: node, Ready: true}}}
	expanded := func() bool {
		return isExpanded(exchangeVia(t, s, overUDP, node, newQuery("web.", dns.TypeA, "shop.svc.cluster.local")))
	}
	before := expanded()
	z.Update(2, func(e *zone.Edit) { e.PutEndpointSlice(slice) })
	added := expanded()
	z.Update(3, func(e *zone.Edit) { e.DeleteEndpointSlice("kube-system", "node-cache-x") })
	if deleted := expanded(); before || !added || deleted {
		t.Errorf("expanded before the node was added %t, with it %t, after it was deleted %t", before, added, deleted)
	}
}

// TestSearchPaths_IgnoredOption: malformed options are ignored and counted.
func TestSearchPaths_IgnoredOption(t *testing.T) {
	upstream := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1\nwww.example.net.b. 300 IN A 192.0.2.2")
	const inCluster = ".cluster.local,"
	domains := func(n int) string { return strings.Repeat("a"+inCluster, n-1) + "b" }
	outside := func(n int) string { return strings.Repeat("a"+inCluster, 3) + strings.Repeat("a,", n-1) + "b" }
	octets := func(n int) string { // the last domain has the name
		text := strings.Repeat(strings.Repeat("a", fqdn.MaxLabel)+inCluster, 25) + strings.Repeat("a"+inCluster, 2)
		return text + strings.Repeat("a", n-len(text)-len(inCluster+"b")) + inCluster + "b"
	}
	tests := []struct {
		name  string
		lists []string
		want  string // the reason; "": it is not ignored
	}{
		{"one domain", []string{"b"}, ""},
		{"maximum of domains", []string{domains(autopath.MaxPaths)}, ""},
		{"one domain more", []string{domains(autopath.MaxPaths + 1)}, "malformed"},
		{"maximum of domains outside the cluster", []string{outside(MaxHostSuffixes)}, ""},
		{"one domain outside the cluster more", []string{outside(MaxHostSuffixes + 1)}, "length"},
		{"empty list", []string{""}, "malformed"},
		{"two options", []string{"b", "b"}, "malformed"},
		{"space", []string{"a, b"}, "malformed"},
		{"maximum of octets", []string{octets(autopath.MaxText)}, ""},
		{"one octet more", []string{octets(autopath.MaxText + 1)}, "malformed"},
	}
	for _, tt := range tests {
		s := newServer(t, "loaded", Config{Upstream: upstream.exchange})
		m := exchangeDirect(t, s, newQuery("www.example.net.", dns.TypeA, tt.lists...))
		if isExpanded(m) != (tt.want == "") || len(m.Answer) == 0 {
			t.Errorf("%s: got %v, want it ignored because of %q", tt.name, m, tt.want)
		}
		for _, reason := range []string{"source", "malformed", "length", "rate"} {
			ignored := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues(reason))
			if (ignored == 1) != (tt.want == reason) {
				t.Errorf("%s: counted %v options ignored because of %q, want %q", tt.name, ignored, reason, tt.want)
			}
		}
	}
}

// TestSearchPaths_EchoInTruncatedReply: a truncated reply has the echo too.
func TestSearchPaths_EchoInTruncatedReply(t *testing.T) {
	cluster := "service shop/big\nslice shop/big"
	for i := range 200 {
		cluster += fmt.Sprintf(" 10.244.2.%d", i)
	}
	s := newServer(t, cluster+"\nloaded", Config{})
	m := exchangeDirect(t, s, newQuery("big.", dns.TypeA, "shop.svc.cluster.local"))
	if !m.Truncated || !isExpanded(m) || len(m.Answer) == 0 || m.Answer[0].Header().Rrtype != dns.TypeCNAME {
		t.Errorf("got truncated %t, expanded %t, %d records, want a truncated reply with echo and CNAME",
			m.Truncated, isExpanded(m), len(m.Answer))
	}
}
