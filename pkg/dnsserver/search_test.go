// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

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
	for _, tt := range []struct {
		config         Autopath
		accept, ignore string // clients
	}{
		// Also at a socket for both families, and one that is not ready: its cluster DNS did not answer.
		{nodeCaches, "172.18.0.2 ::ffff:172.18.0.2 fd00:18::2 fd00:18::2%eth0 172.18.0.3",
			"172.18.0.4 10.244.1.7 10.244.1.8 172.18.0.5 127.0.0.1 ::1"}, // also a Service of the name in a tenant's namespace
		{Autopath{}, "", "172.18.0.2"},
		{allowed("192.0.2.0/24"), "192.0.2.1 ::ffff:192.0.2.1", "192.0.3.1 172.18.0.2"}, // networks replace the endpoints
		{allowed("fe80::/10"), "fe80::1%lo", ""},
		{allowed(), "", "127.0.0.1"},
	} {
		s := must.Get(New(Config{Zone: newZone(t, nil, nodes), Domain: clusterDomain, TTL: 5, Cache: newCachingServer(t, Config{}).cache,
			Upstream: recordSet(nil).exchange, Autopath: tt.config}))(t)
		for clients, want := range map[string]bool{tt.accept: true, tt.ignore: false} {
			for client := range strings.FieldsSeq(clients) {
				before := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues("source"))
				m := exchangeVia(t, s, overUDP, netip.MustParseAddr(client), newQuery("web.", dns.TypeA, "shop.svc.cluster.local"))
				ignored := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues("source")) - before
				if found := len(m.Answer) == 2; found != want || isExpanded(m) != want || (ignored == 0) != want {
					t.Errorf("client %s of %+v: got found %t, expanded %t, counted %v, want %t",
						client, tt.config, found, isExpanded(m), ignored, want)
				}
				if m := exchangeVia(t, s, overUDP, netip.MustParseAddr(client),
					newQuery(autopathName("web", "shop"), dns.TypeA)); len(m.Answer) != 2 {
					t.Errorf("client %s, autopath name: got %v, want two records", client, m)
				}
			}
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

// TestSearch_AgreesWithDocs: the messages, records and limits in autopath/README.md are those of
// the server. Other implementations depend on them.
func TestSearch_AgreesWithDocs(t *testing.T) {
	page := must.Get(os.ReadFile("autopath/README.md"))(t)
	expectInPage := func(what, text string) {
		t.Helper()
		if !strings.Contains(string(page), text) {
			t.Errorf("autopath/README.md lacks %s:\n%s", what, text)
		}
	}

	paths := must.Get(autopath.Encode([]fqdn.Name{mustName(t, "shop.svc.cluster.local"), mustName(t, "corp.example")}))(t)
	q := newQuery("web.", dns.TypeA, string(paths))
	q.Id = 0x2a2a
	query := mustPack(t, q)
	s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{})
	reply := handlePacket(t.Context(), s, query, overUDP, netip.MustParseAddr("169.254.20.10"))
	expectInPage("the query", hexDump(query))
	expectInPage("the reply", hexDump(reply))
	_, records, _ := strings.Cut(replyText(exchangeDirect(t, s, newQuery(autopathName("web", "shop"), dns.TypeA))), "\n")
	for line := range strings.Lines(records) {
		expectInPage("an answer", "    "+line)
	}

	for _, row := range []string{
		fmt.Sprintf("| option code | %d |", autopath.Option),
		fmt.Sprintf("| domains in the option | %d |", autopath.MaxPaths),
		fmt.Sprintf("| octets of the option's value | %d |", autopath.MaxText),
		fmt.Sprintf("| host suffixes of a server, and domains outside the cluster in the option | %d |", MaxHostSuffixes),
		fmt.Sprintf("| time limit of an expansion | %v |", WalkTimeout),
		fmt.Sprintf("| upstream queries of one expansion | %d |", maxSubqueries),
	} {
		expectInPage("a limit", row)
	}
}

// hexDump returns a message in lines of 16 octets, in hexadecimal and as text.
func hexDump(packet []byte) string {
	var b strings.Builder
	for at := 0; at < len(packet); at += 16 {
		line := packet[at:min(at+16, len(packet))]
		var text []byte
		for _, c := range line {
			if c < '!' || c > '~' {
				c = '.'
			}
			text = append(text, c)
		}
		fmt.Fprintf(&b, "    %04x  %-47s  %s\n", at, fmt.Sprintf("% x", line), text)
	}
	return b.String()
}

// countingUpstream counts queries, by name if it is not nil.
func countingUpstream(count *atomic.Int64, exchange Exchange) Exchange {
	return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		count.Add(1)
		return exchange(ctx, q)
	}
}

// noData is an upstream server for which every name exists, without records.
func noData(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
	return m, nil
}

// TestSearch_Amplification: one packet causes at most ten upstream queries, whatever names exist.
// Most names cost one for each domain outside the cluster and one for the bare name.
func TestSearch_Amplification(t *testing.T) {
	hosts := make([]fqdn.Name, MaxHostSuffixes)
	for i := range hosts {
		hosts[i] = mustName(t, fmt.Sprintf("d%d.example", i))
	}
	var list []string
	for _, h := range hosts {
		list = append(list, strings.TrimSuffix(h.String(), "."))
	}
	last := parseRecords(t, "web. 300 IN A 192.0.2.1\nweb. 300 IN AAAA 2001:db8::1").exchange
	for _, tt := range []struct {
		name     string
		upstream Exchange
		qtype    uint16
		want     int64
		rcode    int
	}{
		{"no name exists", recordSet(nil).exchange, dns.TypeA, 9, dns.RcodeNameError},
		{"no name exists", recordSet(nil).exchange, dns.TypeTXT, 9, dns.RcodeNameError},
		{"the bare name is found", last, dns.TypeA, 9, dns.RcodeSuccess},
		{"the bare name is found", last, dns.TypeAAAA, 10, dns.RcodeSuccess},
		{"all names exist without records", noData, dns.TypeA, 10, dns.RcodeServerFailure},
		{"all names exist without records", noData, dns.TypeTXT, 10, dns.RcodeServerFailure},
		{"all servers fail", unreachable, dns.TypeAAAA, 9, dns.RcodeServerFailure},
	} {
		for _, q := range []*dns.Msg{newQuery(autopathName("web", "shop"), tt.qtype), newQuery("web.", tt.qtype, strings.Join(list, ","))} {
			var count atomic.Int64
			s := newServer(t, "namespace shop\nloaded",
				Config{Upstream: countingUpstream(&count, tt.upstream), Autopath: Autopath{HostSuffixes: hosts}})
			if m := exchangeDirect(t, s, q); m.Rcode != tt.rcode {
				t.Errorf("%s: %s: got %s, want %s", tt.name, q.Question[0].String(),
					dns.RcodeToString[m.Rcode], dns.RcodeToString[tt.rcode])
			}
			s.running.Wait()
			if got := count.Load(); got != tt.want {
				t.Errorf("%s: %s: got %d upstream queries, want %d", tt.name, q.Question[0].String(), got, tt.want)
			}
		}
	}
}

// TestLimits_AgreeWithDocs: the limits in docs/dns.md are those of the server.
func TestLimits_AgreeWithDocs(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/dns.md"))(t)
	const mebibyte = 1 << 20
	limits := Limits{}.withDefaults()
	size := limits.CacheConfig()
	for _, row := range []string{
		fmt.Sprintf("| reply over UDP | the size that the client accepts, at most %d octets |", maxUDP),
		fmt.Sprintf("| query | %d octets, one question |", maxQuery),
		fmt.Sprintf("| queries that wait for other servers | %d;", DefaultMaxQueries),
		fmt.Sprintf("| queries to other servers for one search list | %d, and %d domains outside the cluster |",
			maxSubqueries, MaxHostSuffixes),
		fmt.Sprintf("| queries of a TCP connection that wait | %d |", maxStreamQueries),
		fmt.Sprintf("| replies over TCP of more than %d octets that wait for their client | %d |", smallReply, limits.maxReplies()),
		fmt.Sprintf("| TCP connections | %d;", limits.maxConnections()),
		fmt.Sprintf("| time of a TCP connection | %v s between two queries, %v s for a message",
			idleTimeout.Seconds(), messageTimeout.Seconds()),
		fmt.Sprintf("| chain of ExternalNames | %d aliases |", maxAliases),
		fmt.Sprintf("| RRset of the cluster zone | %d records over TCP,", maxRRset),
		fmt.Sprintf("| cache | %d,%03d answers, %d MiB |", size.MaxEntries/1000, size.MaxEntries%1000, size.MaxBytes/mebibyte),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/dns.md lacks: %s", row)
		}
	}
}
