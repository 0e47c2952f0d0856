// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// What clients see of autopath is in testdata/autopath*.txtar. Here is what depends on
// who asks, when, and how much.

func mustName(t testing.TB, text string) fqdn.Name {
	t.Helper()
	name, err := fqdn.ParseName(text)
	if err != nil {
		t.Fatalf("name %q %v", text, err)
	}
	return name
}

// echoes counts the SearchPaths options of a reply that are empty.
func echoes(m *dns.Msg) (n int) {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if local, ok := o.(*dns.EDNS0_LOCAL); ok && local.Code == autopath.DefaultOption && len(local.Data) == 0 {
				n++
			}
		}
	}
	return n
}

// expanded tells whether a server says that it has expanded the query.
func expanded(m *dns.Msg) bool { return echoes(m) == 1 }

// question is a query, with the search lists as options.
func question(name string, qtype uint16, lists ...string) *dns.Msg {
	q := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, false)
	for _, list := range lists {
		q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: autopath.DefaultOption, Data: []byte(list)})
	}
	return q
}

// from asks the server as a client with that address.
func from(t testing.TB, s *Server, client netip.Addr, q *dns.Msg) *dns.Msg {
	t.Helper()
	return over(t, s, overUDP, client, q)
}

func over(t testing.TB, s *Server, via transport, client netip.Addr, q *dns.Msg) *dns.Msg {
	t.Helper()
	packet, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(handled(t.Context(), s, packet, via, client)); err != nil {
		t.Fatal(err)
	}
	return reply
}

func pod() netip.Addr { return netip.MustParseAddr("10.244.1.7") }

// TestAutopathConfig has both sides of what a server can be given.
func TestAutopathConfig(t *testing.T) {
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
		{Autopath{Option: 65000}, "option 65000: local use is 65001 to 65534"},
		{Autopath{Option: 65001}, ""},
		{Autopath{Option: 65534}, ""},
		{Autopath{Option: 65535}, "option 65535"},
		{Autopath{HostSuffixes: suffixes(29)}, ""},
		{Autopath{HostSuffixes: suffixes(30)}, "30 host suffixes: at most 29 fit"},
		{Autopath{HostSuffixes: []fqdn.Name{""}}, "host suffix 1 is empty"},
		{Autopath{Suffix: mustName(t, "local")}, "the cluster's domain cluster.local. is in local."},
	}
	for _, tt := range tests {
		_, err := tt.config.withDefaults(mustName(t, "cluster.local"))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %v, want %q", tt.config, err, tt.err)
		}
	}
}

// TestAutopathSuffix: another suffix and option take the place of the default ones.
func TestAutopathSuffix(t *testing.T) {
	s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{Autopath: Autopath{Suffix: mustName(t, "pods.test"), Option: 65001}})
	if m := from(t, s, pod(), question("web.search.shop.cluster.local.pods.test.", dns.TypeA)); len(m.Answer) != 2 {
		t.Errorf("%v", m)
	}
	if m := from(t, s, pod(), question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)); m.Rcode != dns.RcodeRefused {
		t.Errorf("the default suffix: %v", m)
	}
	q := question("web.", dns.TypeA, "shop.svc.cluster.local")
	if m := from(t, s, pod(), q); len(m.Answer) != 0 {
		t.Errorf("the default option: %v", m)
	}
	q.IsEdns0().Option[0].(*dns.EDNS0_LOCAL).Code = 65001
	if m := from(t, s, pod(), q); len(m.Answer) != 2 {
		t.Errorf("%v", m)
	}
}

// TestSuffixInTheCluster: a suffix may be below the cluster's domain. Names there are
// expanded over the socket too, where the quick way knows the cluster.
func TestSuffixInTheCluster(t *testing.T) {
	s := serveConfig(t, "service shop/web 10.96.0.7\nloaded", Config{Autopath: Autopath{Suffix: mustName(t, "ap.cluster.local")}})
	for _, network := range []string{"udp", "tcp"} {
		m := s.exchange(t, network, question("web.search.shop.cluster.local.ap.cluster.local.", dns.TypeA))
		if len(m.Answer) != 2 {
			t.Errorf("over %s: %v", network, m)
		}
	}
}

// TestOptionAllowed: the option counts from the cluster's networks. From elsewhere the
// bare name is answered, without echo. Names need no permission: their list is ours.
func TestOptionAllowed(t *testing.T) {
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
		{nil, "::ffff:10.1.2.3", true}, {nil, "::ffff:192.0.2.1", false}, // a socket for both families
		{nil, "192.0.2.1", false}, {nil, "2001:db8::1", false},
		{networks("192.0.2.0/24"), "192.0.2.1", true}, {networks("192.0.2.0/24"), "10.0.0.1", false},
		{networks(), "127.0.0.1", false},
	}
	for _, tt := range tests {
		s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{Upstream: knownNames(nil).exchange, Autopath: Autopath{Allowed: tt.allowed}})
		m := from(t, s, netip.MustParseAddr(tt.client), question("web.", dns.TypeA, "shop.svc.cluster.local"))
		if found := len(m.Answer) == 2; found != tt.want || expanded(m) != tt.want {
			t.Errorf("from %s: found %t, expanded %t, want %t", tt.client, found, expanded(m), tt.want)
		}
		if m := from(t, s, netip.MustParseAddr(tt.client), question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)); len(m.Answer) != 2 {
			t.Errorf("from %s, by name: %v", tt.client, m)
		}
	}
	s := newServer(t, "loaded", Config{})
	if m := from(t, s, netip.Addr{}, question("cluster.local.", dns.TypeA, "a")); expanded(m) {
		t.Error("from nowhere")
	}
}

// TestOptionIgnored has options that are as good as none, and how they are counted.
func TestOptionIgnored(t *testing.T) {
	upstream := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1\nwww.example.net.b. 300 IN A 192.0.2.2")
	list := func(n int) string { return strings.Repeat("a,", n-1) + "b" }
	label := strings.Repeat("a", fqdn.MaxLabel)
	octets := func(n int) string { // with the domain that knows the name at the end
		text := strings.Repeat(label+",", 30) + label + ".,b"
		return strings.Replace(text, ".", "."+strings.Repeat("a", n-len(text)), 1)
	}
	tests := []struct {
		what  string
		lists []string
		want  bool
	}{
		{"a list", []string{"b"}, true},
		{"as many domains as there may be", []string{list(autopath.MaxPaths)}, true},
		{"one more", []string{list(autopath.MaxPaths + 1)}, false},
		{"an empty list", []string{""}, false},
		{"the same list twice", []string{"b", "b"}, false},
		{"a blank", []string{"a, b"}, false},
		{"as long as it may be", []string{octets(autopath.MaxText)}, true},
		{"one octet more", []string{octets(autopath.MaxText + 1)}, false},
	}
	for _, tt := range tests {
		s := newServer(t, "loaded", Config{Upstream: upstream.exchange})
		m := from(t, s, pod(), question("www.example.net.", dns.TypeA, tt.lists...))
		if expanded(m) != tt.want || len(m.Answer) == 0 {
			t.Errorf("%s: %v", tt.what, m)
		}
		ignored := testutil.ToFloat64(s.metrics.autopath.ignored.WithLabelValues("malformed"))
		if (ignored == 1) == tt.want {
			t.Errorf("%s: %v ignored", tt.what, ignored)
		}
	}
}

// TestEchoStays in a reply that is cut to what the client takes.
func TestEchoStays(t *testing.T) {
	cluster := "service shop/big\nslice shop/big"
	for i := range 200 {
		cluster += fmt.Sprintf(" 10.244.2.%d", i)
	}
	s := newServer(t, cluster+"\nloaded", Config{})
	m := from(t, s, pod(), question("big.", dns.TypeA, "shop.svc.cluster.local"))
	if !m.Truncated || !expanded(m) || len(m.Answer) == 0 || m.Answer[0].Header().Rrtype != dns.TypeCNAME {
		t.Errorf("truncated %t, expanded %t, %d records", m.Truncated, expanded(m), len(m.Answer))
	}
}

// TestAutopathTTL: no TTL of an expansion is longer than what was passed over may be
// absent for. A reply of others is shared, and stays as it is.
func TestAutopathTTL(t *testing.T) {
	synctest.Test(t, testAutopathTTL) // so that none ages
}

func testAutopathTTL(t *testing.T) {
	upstream := func(denial string) Exchange {
		records := parseRecords(t, "web.b.example. 300 IN A 192.0.2.1\nempty.a.example. 300 IN TXT x")
		return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			m, err := records.exchange(ctx, q)
			m.Ns = nil
			if len(m.Answer) == 0 && denial != "" {
				soa, err := dns.NewRR("example. " + denial)
				if err != nil {
					t.Fatal(err)
				}
				m.Ns = []dns.RR{soa}
			}
			return m, err
		}
	}
	tests := []struct {
		what, name, denial string
		want               uint32
	}{
		{"the cluster's own", "kubernetes", "60 IN SOA . . 1 2 3 4 60", 30},
		{"a denial that lasts longer than the cluster's", "web", "60 IN SOA . . 1 2 3 4 60", 30},
		{"a minimum", "web", "60 IN SOA . . 1 2 3 4 7", 7},
		{"a TTL below the minimum", "web", "6 IN SOA . . 1 2 3 4 60", 6},
		{"a denial that must not be kept", "web", "", 0},
		{"nothing found", "absent", "60 IN SOA . . 1 2 3 4 7", 7},
		{"nothing but a name", "empty", "60 IN SOA . . 1 2 3 4 7", 7},
		{"nothing found, not to be kept", "absent", "", 0},
	}
	for _, tt := range tests {
		for _, byName := range []bool{true, false} {
			s := newServer(t, "service shop/kubernetes 10.96.0.1\nloaded", Config{
				Upstream: upstream(tt.denial), Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "a.example"), mustName(t, "b.example")}},
			})
			s.cfg.TTL = 30
			q := question(tt.name+".", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local,a.example,b.example")
			if byName {
				q = question(tt.name+".search.shop.cluster.local.ap.k8s.io.", dns.TypeA)
			}
			for _, when := range []string{"asked", "cached"} {
				m := from(t, s, pod(), q)
				ttl := uint32(noLimit)
				for _, rr := range append(m.Answer, m.Ns...) {
					ttl = min(ttl, rr.Header().Ttl)
				}
				nothing := tt.denial == "" && !byName && len(m.Answer) == 0 // upstream gave no SOA to pass on
				if ttl != tt.want && !nothing {
					t.Errorf("%s, by name %t, %s: TTL %d, want %d\n%v", tt.what, byName, when, ttl, tt.want, m)
				}
				s.running.Wait()
			}
		}
	}
}

// TestAddressesAgree: a name with an address of one family is found for both, also
// while nobody can say whether it has one of the other.
func TestAddressesAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := parseRecords(t, "web.a.example. 300 IN A 192.0.2.1\nweb.b.example. 300 IN AAAA 2001:db8::1")
		says := "" // of AAAA at a.example
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			m, err := records.exchange(ctx, q)
			if q.Question[0].Name == "web.a.example." && q.Question[0].Qtype == dns.TypeAAAA {
				switch says {
				case "error":
					return nil, errors.New("nobody is there")
				case "refused":
					m.Rcode = dns.RcodeRefused
				case "nxdomain":
					m.Rcode = dns.RcodeNameError
				case "silence":
					time.Sleep(5 * time.Second)
					return nil, errors.New("nobody is there")
				}
			}
			return m, err
		}
		for _, tt := range []struct {
			says  string
			rcode int
			took  time.Duration
		}{{"nodata", dns.RcodeSuccess, 0}, {"nxdomain", dns.RcodeSuccess, 0}, {"error", dns.RcodeServerFailure, 0}, {"refused", dns.RcodeServerFailure, 0}, {"silence", dns.RcodeServerFailure, WalkTimeout}} {
			says = tt.says
			for _, order := range [][]uint16{{dns.TypeA, dns.TypeAAAA}, {dns.TypeAAAA, dns.TypeA}} {
				s := newServer(t, "loaded", Config{Upstream: upstream, Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "a.example"), mustName(t, "b.example")}}})
				for _, qtype := range order {
					begin := time.Now()
					m := from(t, s, pod(), question("web.search.shop.cluster.local.ap.k8s.io.", qtype))
					took := time.Since(begin)
					switch {
					case qtype == dns.TypeA:
						if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 || took != 0 {
							t.Errorf("AAAA is %s, A gets %v after %v", says, m, took)
						}
					case m.Rcode != tt.rcode || took != tt.took:
						t.Errorf("AAAA is %s, and gets %v after %v", says, m, took)
					case m.Rcode == dns.RcodeSuccess && (len(m.Answer) != 1 || m.Answer[0].(*dns.CNAME).Target != "web.a.example."):
						t.Errorf("AAAA is %s, and gets %v", says, m)
					}
				}
				s.running.Wait()
			}
		}
	})
}

// TestSlowSuffix: a walk does not wait longer than its patience. What it asked is asked
// to the end, so that who asks again gets the answer from the cache.
func TestSlowSuffix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := parseRecords(t, "web.slow.example. 300 IN A 192.0.2.1\nweb.lab.example. 300 IN A 192.0.2.2")
		var asked atomic.Int32
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			asked.Add(1)
			if strings.HasSuffix(q.Question[0].Name, "slow.example.") {
				time.Sleep(4500 * time.Millisecond)
			}
			return records.exchange(ctx, q)
		}
		s := newServer(t, "loaded", Config{Upstream: upstream, Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "slow.example"), mustName(t, "lab.example")}}})
		ask := func(want string, ttl uint32, took time.Duration) {
			t.Helper()
			begin := time.Now()
			m := from(t, s, pod(), question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
			if len(m.Answer) != 2 || m.Answer[0].(*dns.CNAME).Target != want || m.Answer[0].Header().Ttl != ttl || time.Since(begin) != took {
				t.Errorf("after %v: %v", time.Since(begin), m)
			}
		}
		ask("web.lab.example.", 0, WalkTimeout)
		time.Sleep(time.Second) // as glibc, which waits five
		before := asked.Load()
		ask("web.slow.example.", 5, 0)
		if after := asked.Load(); after != before || before != 6 { // both types of two host suffixes and the bare name
			t.Errorf("%d questions, %d more", before, after-before)
		}
		s.running.Wait()
	})
}

// TestAutopathReasons: whoever gets SERVFAIL is told why (RFC 8914).
func TestAutopathReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			time.Sleep(5 * time.Second)
			return nil, errors.New("nobody is there")
		}
		refused := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) { return nil, errors.New("nobody is there") }
		tests := []struct {
			cluster  string
			upstream Exchange
			busy     int
			code     uint16
			text     string
		}{
			{"namespace shop", refused, 0, dns.ExtendedErrorCodeNotReady, "the cluster's names are not loaded yet"},
			{"loaded", refused, 0, dns.ExtendedErrorCodeNetworkError, "upstream: nobody is there"},
			{"loaded", silent, 0, dns.ExtendedErrorCodeNoReachableAuthority, "the search list took too long"},
			{"loaded", nil, 0, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured"},
			{"loaded", refused, maxWalked, dns.ExtendedErrorCodeOther, "too many search lists are being walked"},
			{"service shop/web external=a.example\nloaded", refused, 0, dns.ExtendedErrorCodeNoReachableAuthority, "the target of the external name was not answered"},
		}
		for _, tt := range tests {
			s := newServer(t, tt.cluster, Config{Upstream: tt.upstream})
			fill(s.limits.walked, tt.busy)
			m := from(t, s, pod(), question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
			ede, ok := m.IsEdns0().Option[0].(*dns.EDNS0_EDE)
			if m.Rcode != dns.RcodeServerFailure || !ok || ede.InfoCode != tt.code || ede.ExtraText != tt.text {
				t.Errorf("%s: %v", tt.text, m)
			}
			s.running.Wait()
		}
	})
}

// TestAutopathFlags: what others are asked has the client's DO and CD. Nothing of an
// expansion is called authentic, though all its parts may be.
func TestAutopathFlags(t *testing.T) {
	records := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1")
	for bits := range 4 {
		do, cd := bits&1 != 0, bits&2 != 0
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if q.IsEdns0().Do() != do || q.CheckingDisabled != cd {
				t.Errorf("a client with DO %t and CD %t leads to %v", do, cd, q)
			}
			m, err := records.exchange(ctx, q)
			m.AuthenticatedData = true
			return m, err
		}
		s := newServer(t, "loaded", Config{Upstream: upstream})
		for _, q := range []*dns.Msg{question("www.example.net.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), question("www.example.net.", dns.TypeA, "example")} {
			q.CheckingDisabled, q.AuthenticatedData = cd, true
			if do {
				q.IsEdns0().SetDo()
			}
			m := from(t, s, pod(), q)
			if m.AuthenticatedData || m.CheckingDisabled != cd || m.IsEdns0().Do() != do || m.Rcode != dns.RcodeSuccess {
				t.Errorf("DO %t, CD %t: %v", do, cd, m)
			}
		}
	}
}

// fill makes n pieces of work of a kind be in flight.
func fill(l limit, n int) {
	for len(l) > n {
		l.release()
	}
	for len(l) < n {
		l.acquire()
	}
}

// TestManyWalks: the questions of walks leave room for others. What is too much fails at
// once, is no denial, and passes.
func TestManyWalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, "loaded", Config{Upstream: parseRecords(t, "web.corp.example. 300 IN A 192.0.2.1").exchange,
			Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}}})
		for _, tt := range []struct {
			busy  int
			rcode int
		}{{maxWalked, dns.RcodeServerFailure}, {maxWalked - 4, dns.RcodeSuccess}} {
			s.cfg.Cache.Clear()
			fill(s.limits.walked, tt.busy)
			if m := from(t, s, pod(), question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)); m.Rcode != tt.rcode {
				t.Errorf("with %d questions on their way: %v", tt.busy, m)
			}
			s.running.Wait()
			if left := len(s.limits.walked); left != tt.busy {
				t.Errorf("%d questions are never answered", left-tt.busy)
			}
		}
	})
}

// TestAutopathCost counts what walks look at, and what they ask of others.
func TestAutopathCost(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newServer(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded", Config{Register: registry, Upstream: parseRecords(t, "a.example. 300 IN A 192.0.2.1").exchange,
		Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "example")}}})
	for _, name := range []string{"web", "a", "a", "shop", "absent"} {
		from(t, s, pod(), question(name+".search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
	}
	from(t, s, pod(), question("web.", dns.TypeA, "svc.cluster.local,shop.svc.cluster.local"))
	from(t, s, netip.MustParseAddr("192.0.2.1"), question("web.", dns.TypeA, "shop.svc.cluster.local"))
	// Candidates: 1 for web, 5 for a and 4 once it is known, 5 each for shop and
	// absent, 2 for the option. Questions: both types of a.example and of "a." at
	// first, then of shop's and absent's.
	const want = `
# HELP dnsconfigurer_dns_autopath_expansions_total Search lists expanded for a query, by what gave the list (name, option) and result (found, nodata, absent, failed).
# TYPE dnsconfigurer_dns_autopath_expansions_total counter
dnsconfigurer_dns_autopath_expansions_total{by="name",result="absent"} 1
dnsconfigurer_dns_autopath_expansions_total{by="name",result="failed"} 0
dnsconfigurer_dns_autopath_expansions_total{by="name",result="found"} 3
dnsconfigurer_dns_autopath_expansions_total{by="name",result="nodata"} 1
dnsconfigurer_dns_autopath_expansions_total{by="option",result="absent"} 0
dnsconfigurer_dns_autopath_expansions_total{by="option",result="failed"} 0
dnsconfigurer_dns_autopath_expansions_total{by="option",result="found"} 1
dnsconfigurer_dns_autopath_expansions_total{by="option",result="nodata"} 0
# HELP dnsconfigurer_dns_autopath_candidates Candidate names tried by an expansion.
# TYPE dnsconfigurer_dns_autopath_candidates histogram
dnsconfigurer_dns_autopath_candidates_bucket{le="1"} 1
dnsconfigurer_dns_autopath_candidates_bucket{le="2"} 2
dnsconfigurer_dns_autopath_candidates_bucket{le="3"} 2
dnsconfigurer_dns_autopath_candidates_bucket{le="4"} 3
dnsconfigurer_dns_autopath_candidates_bucket{le="5"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="6"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="8"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="16"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="33"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="+Inf"} 6
dnsconfigurer_dns_autopath_candidates_sum 22
dnsconfigurer_dns_autopath_candidates_count 6
# HELP dnsconfigurer_dns_autopath_questions Questions of an expansion that neither the zone nor the cache answered.
# TYPE dnsconfigurer_dns_autopath_questions histogram
dnsconfigurer_dns_autopath_questions_bucket{le="0"} 3
dnsconfigurer_dns_autopath_questions_bucket{le="2"} 3
dnsconfigurer_dns_autopath_questions_bucket{le="4"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="8"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="16"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="32"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="64"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="99"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="+Inf"} 6
dnsconfigurer_dns_autopath_questions_sum 12
dnsconfigurer_dns_autopath_questions_count 6
# HELP dnsconfigurer_dns_autopath_ignored_total SearchPaths options that were ignored, by reason (source, malformed).
# TYPE dnsconfigurer_dns_autopath_ignored_total counter
dnsconfigurer_dns_autopath_ignored_total{reason="malformed"} 0
dnsconfigurer_dns_autopath_ignored_total{reason="source"} 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dnsconfigurer_dns_autopath_expansions_total",
		"dnsconfigurer_dns_autopath_candidates", "dnsconfigurer_dns_autopath_questions", "dnsconfigurer_dns_autopath_ignored_total")
	if err != nil {
		t.Error(err)
	}
}
