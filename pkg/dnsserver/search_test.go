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
		{Autopath{Option: 65000}, "option 65000: not in the range for local use, 65001 to 65534"},
		{Autopath{Option: 65001}, ""},
		{Autopath{Option: 65534}, ""},
		{Autopath{Option: 65535}, "option 65535"},
		{Autopath{HostSuffixes: suffixes(29)}, ""},
		{Autopath{HostSuffixes: suffixes(30)}, "30 host suffixes: at most 29 fit"},
		{Autopath{HostSuffixes: []fqdn.Name{""}}, "host suffix 1 is empty"},
		{Autopath{Suffix: mustName(t, "local")}, "cluster domain cluster.local. is below the suffix local.: its names could not be resolved"},
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

// TestSearchPaths_AllowedNetworks: the option of a client outside the allowed networks is ignored.
// Such a client gets the answer for the bare name, without echo. Autopath names are expanded for
// all clients: the server has their search list itself.
func TestSearchPaths_AllowedNetworks(t *testing.T) {
	networks := func(list ...string) []netip.Prefix {
		prefixes := []netip.Prefix{}
		for _, p := range list {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		return prefixes
	}
	tests := []struct {
		allowed []netip.Prefix
		client  string
		want    bool
	}{
		{nil, "127.0.0.1", true}, {nil, "::1", true},
		{nil, "169.254.20.10", true}, {nil, "fe80::1%lo", true},
		{nil, "10.0.0.0", true}, {nil, "10.255.255.255", true}, {nil, "9.255.255.255", false}, {nil, "11.0.0.0", false},
		{nil, "172.16.0.0", true}, {nil, "172.31.255.255", true}, {nil, "172.15.255.255", false}, {nil, "172.32.0.0", false},
		{nil, "192.168.0.1", true}, {nil, "192.169.0.1", false},
		{nil, "100.64.0.0", true}, {nil, "100.127.255.255", true}, {nil, "100.63.255.255", false}, {nil, "100.128.0.0", false},
		{nil, "fc00::1", true}, {nil, "fdff::1", true}, {nil, "fe00::1", false},
		{nil, "::ffff:10.1.2.3", true}, {nil, "::ffff:192.0.2.1", false}, // at an IPv6 socket for both families
		{nil, "192.0.2.1", false}, {nil, "2001:db8::1", false},
		{networks("192.0.2.0/24"), "192.0.2.1", true}, {networks("192.0.2.0/24"), "10.0.0.1", false},
		{networks(), "127.0.0.1", false},
	}
	for _, tt := range tests {
		s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{Upstream: recordSet(nil).exchange, Autopath: Autopath{Allowed: tt.allowed}})
		m := exchangeVia(t, s, overUDP, netip.MustParseAddr(tt.client), newQuery("web.", dns.TypeA, "shop.svc.cluster.local"))
		if found := len(m.Answer) == 2; found != tt.want || isExpanded(m) != tt.want {
			t.Errorf("client %s: got found %t, expanded %t, want %t", tt.client, found, isExpanded(m), tt.want)
		}
		if m := exchangeVia(t, s, overUDP, netip.MustParseAddr(tt.client), newQuery(autopathName("web", "shop"), dns.TypeA)); len(m.Answer) != 2 {
			t.Errorf("client %s, autopath name: got %v, want two records", tt.client, m)
		}
	}
	s := newServer(t, "loaded", Config{})
	if m := exchangeVia(t, s, overUDP, netip.Addr{}, newQuery("cluster.local.", dns.TypeA, "a")); isExpanded(m) {
		t.Error("the option of a client with unknown address is not ignored")
	}
}

// TestSearchPaths_IgnoredOption: malformed options are ignored and counted.
func TestSearchPaths_IgnoredOption(t *testing.T) {
	upstream := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1\nwww.example.net.b. 300 IN A 192.0.2.2")
	domains := func(n int) string { return strings.Repeat("a,", n-1) + "b" }
	label := strings.Repeat("a", fqdn.MaxLabel)
	octets := func(n int) string { // the last domain has the name
		text := strings.Repeat(label+",", 30) + label + ".,b"
		return strings.Replace(text, ".", "."+strings.Repeat("a", n-len(text)), 1)
	}
	tests := []struct {
		name  string
		lists []string
		want  bool
	}{
		{"one domain", []string{"b"}, true},
		{"maximum of domains", []string{domains(autopath.MaxPaths)}, true},
		{"one domain more", []string{domains(autopath.MaxPaths + 1)}, false},
		{"empty list", []string{""}, false},
		{"two options", []string{"b", "b"}, false},
		{"space", []string{"a, b"}, false},
		{"maximum of octets", []string{octets(autopath.MaxText)}, true},
		{"one octet more", []string{octets(autopath.MaxText + 1)}, false},
	}
	for _, tt := range tests {
		s := newServer(t, "loaded", Config{Upstream: upstream.exchange})
		m := exchangeDirect(t, s, newQuery("www.example.net.", dns.TypeA, tt.lists...))
		if isExpanded(m) != tt.want || len(m.Answer) == 0 {
			t.Errorf("%s: got %v, want expanded %t", tt.name, m, tt.want)
		}
		ignored := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues("malformed"))
		if (ignored == 1) == tt.want {
			t.Errorf("%s: counted %v ignored options, want expanded %t", tt.name, ignored, tt.want)
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
		t.Errorf("got truncated %t, expanded %t, %d records, want a truncated reply with echo and CNAME", m.Truncated, isExpanded(m), len(m.Answer))
	}
}
