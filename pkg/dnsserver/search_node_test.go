// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
)

// clusterDNS is the cluster DNS server of node caches.
type clusterDNS struct {
	*Server
	ignoresOption bool // it does not support the SearchPaths option
	down          atomic.Bool
	before        func(*dns.Msg) // not nil: called with each query

	queries   atomic.Int64
	lastQuery atomic.Pointer[dns.Msg] // a copy
}

func (c *clusterDNS) exchange(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	c.queries.Add(1)
	c.lastQuery.Store(m.Copy())
	if c.before != nil {
		c.before(m)
	}
	if c.down.Load() {
		return nil, errUnreachable
	}
	q := m.Copy()
	if c.ignoresOption {
		q.IsEdns0().Option = nil
	}
	packet, err := q.Pack()
	if err != nil {
		return nil, err
	}
	reply := new(dns.Msg)
	return reply, reply.Unpack(handlePacket(ctx, c.Server, packet, overTCP, netip.MustParseAddr("10.0.0.1")))
}

// forwarding returns the Forwarding of a node with the search domains.
func (c *clusterDNS) forwarding(t testing.TB, upstream Exchange, hosts ...string) Forwarding {
	f := Forwarding{Upstream: upstream, Expander: c.exchange}
	for _, zone := range []string{"cluster.local", "in-addr.arpa", "ip6.arpa"} {
		f.Stubs = append(f.Stubs, Stub{Zone: mustName(t, zone), Exchange: c.exchange, Cluster: true})
	}
	for _, host := range hosts {
		f.HostSuffixes = append(f.HostSuffixes, mustName(t, host))
	}
	return f
}

// newNodeCache returns a node cache without sockets.
func newNodeCache(t testing.TB, f Forwarding) *testServer {
	t.Helper()
	s := newCachingServer(t, Config{Autopath: Autopath{Allowed: []netip.Prefix{}}})
	s.SetForwarding(f)
	return s
}

// TestGolden_NodeCache compares the replies of node caches with the golden files. Each question is
// sent to two of them: the cluster DNS of the first supports the option, that of the second does
// not. A different reply of the second follows "without the option": a cluster DNS that expands the
// list does not say that the bare name was found if that name has no records of the type.
func TestGolden_NodeCache(t *testing.T) {
	for _, file := range readGoldenFiles(t, "testdata/node") {
		t.Run(file.name, func(t *testing.T) {
			withOption, without := startNodeCache(t, file, false), startNodeCache(t, file, true)
			file.check(t, func(question string) string {
				reply := withOption.consistentReply(t, question)
				if other := without.consistentReply(t, question); other != reply {
					reply += "without the option\n" + other
				}
				return reply
			})
		})
	}
}

// startNodeCache starts a node cache of the cluster of a golden file.
func startNodeCache(t *testing.T, file goldenFile, ignoresOption bool) *testServer {
	t.Helper()
	server := newTestServer(t, file.cluster, Config{Upstream: file.upstream.exchange})
	c := &clusterDNS{Server: server.Server, ignoresOption: ignoresOption,
		before: func(*dns.Msg) { server.cache.Clear() }} // or TTLs have aged
	forwarding := c.forwarding(t, file.upstream.exchange)
	forwarding.HostSuffixes = file.hosts
	s := newNodeCache(t, forwarding)
	s.serveOn(t, "127.0.0.1:0")
	return s
}

// TestNodeCache_ExpanderQuery checks the queries to the cluster DNS: the bare name with the search
// list, without the client's options. Other autopath names are never sent.
func TestNodeCache_ExpanderQuery(t *testing.T) {
	c := &clusterDNS{Server: newServer(t, shopCluster, Config{})}
	s := newNodeCache(t, c.forwarding(t, nil, "corp.example"))
	q := newQuery(autopathName("WEB", "shop"), dns.TypeAAAA, "other.example")
	q.CheckingDisabled = true
	q.IsEdns0().SetDo()
	if m := exchangeDirect(t, s.Server, q); m.Answer[0].Header().Name != q.Question[0].Name {
		t.Errorf("got the owner of %v, want that of the question", m.Answer[0])
	}
	sent := c.lastQuery.Load()
	opt := sent.IsEdns0()
	if got := sent.Question[0].String() + " " + opt.Option[0].(*dns.EDNS0_LOCAL).String(); len(opt.Option) != 1 ||
		!opt.Do() || !sent.CheckingDisabled ||
		sent.Question[0].Name != "web." ||
		string(opt.Option[0].(*dns.EDNS0_LOCAL).Data) != "shop.svc.cluster.local,svc.cluster.local,cluster.local,corp.example" {
		t.Errorf("the cluster DNS got %s, want web. with the search list of the pod", got)
	}
	before := c.queries.Load()
	for _, name := range []string{"ap.k8s.io.", "other.ap.k8s.io.", "web.find.shop.cluster.local.ap.k8s.io.",
		"shop.cluster.local.ap.k8s.io.", "web.search.shop.other.ap.k8s.io."} {
		exchangeDirect(t, s.Server, newQuery(name, dns.TypeA))
	}
	if c.queries.Load() != before {
		t.Errorf("the cluster DNS got %v, want no query", c.lastQuery.Load().Question)
	}
	// The option of a client is ignored, and not forwarded.
	if m := exchangeDirect(t, s.Server,
		newQuery("web.svc.cluster.local.", dns.TypeA, "shop.svc.cluster.local")); m.Rcode != dns.RcodeNameError ||
		isExpanded(m) || len(c.lastQuery.Load().IsEdns0().Option) != 0 {
		t.Errorf("query with an option: the client got\n%v\nand the cluster DNS\n%v", m, c.lastQuery.Load())
	}
}

// TestNodeCache_OptionLimits checks both sides of the limits of the option and of the search list.
func TestNodeCache_OptionLimits(t *testing.T) {
	// The length of the cluster's domains in the option.
	const cluster = len("shop.svc.cluster.local,svc.cluster.local,cluster.local")
	domains := func(n, length int) []string { // n domains of length octets in the option
		list := slices.Repeat([]string{""}, n)
		for i := range list {
			share := length/(n-i) - 1
			length -= share + 1
			label := strings.Repeat("x", 50)
			list[i] = (fmt.Sprintf("d%02d.", i) + strings.Repeat(label+".", 5))[:share]
		}
		return list
	}
	for _, tt := range []struct {
		name  string
		hosts []string
		paths int // in the option; 0: no option
	}{
		{"maximum of domains", domains(MaxHostSuffixes, MaxHostSuffixes*8), 3 + MaxHostSuffixes},
		{"one domain more", domains(MaxHostSuffixes+1, (MaxHostSuffixes+1)*8), 3 + MaxHostSuffixes},
		{"maximum of octets", domains(MaxHostSuffixes, autopath.MaxText-cluster), 3 + MaxHostSuffixes},
		{"one octet more", domains(MaxHostSuffixes, autopath.MaxText-cluster+1), 0},
	} {
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{})}
		s := newNodeCache(t, c.forwarding(t, nil, tt.hosts...))
		if got := addresses(exchangeDirect(t, s.Server, newQuery(autopathName("web", "shop"), dns.TypeA))); got != "10.96.0.7" {
			t.Errorf("%s: got %s, want 10.96.0.7", tt.name, got)
		}
		paths := 0
		if options := c.lastQuery.Load().IsEdns0().Option; len(options) > 0 {
			list, err := autopath.Decode(options[0].(*dns.EDNS0_LOCAL).Data)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			paths = len(list)
		}
		if paths != tt.paths {
			t.Errorf("%s: got %d domains in the option, want %d", tt.name, paths, tt.paths)
		}
	}
}

// TestNodeCache_CacheIsolation: a reply depends neither on queries of other pods nor on previous
// search domains of the host. Each reply of a node cache is the same as that of a new one.
func TestNodeCache_CacheIsolation(t *testing.T) {
	hosts := [][]string{nil, {"example"}, {"corp.example", "example"}, {"example", "corp.example"}, {"dead.test"}}
	for _, ignoresOption := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // TTLs do not age in fake time
			for seed := range uint64(40) {
				sc := newScenario(seed)
				c := &clusterDNS{Server: sc.newServer(t), ignoresOption: ignoresOption}
				forwarding := c.forwarding(t, c.cfg.Upstream, hosts[sc.IntN(len(hosts))]...)
				shared := newNodeCache(t, forwarding)
				for range 40 {
					switch sc.IntN(8) {
					case 0:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[sc.IntN(len(hosts))]...)
						shared.SetForwarding(forwarding)
					case 1:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[sc.IntN(len(hosts))]...)
						shared.SetHostSuffixes(forwarding.HostSuffixes)
					}
					name := sc.lookupName()
					if sc.IntN(4) > 0 {
						name += "search." + sc.pick("shop", "api", "default") + ".cluster.local.ap.k8s.io."
					}
					types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}
					if len(forwarding.HostSuffixes) > 1 {
						types = types[:2] // with more than maxSubqueries the result depends on the cache
					}
					q := newQuery(name, types[sc.IntN(len(types))])
					if sc.IntN(3) == 0 { // an option of the client
						q = newQuery(name, dns.TypeA, sc.pick("api", "shop")+".svc.cluster.local,example")
					}
					q.CheckingDisabled = sc.IntN(4) == 0
					fresh := newNodeCache(t, forwarding)
					got, want := replyText(exchangeDirect(t, shared.Server, q)), replyText(exchangeDirect(t, fresh.Server, q))
					if got != want {
						t.Fatalf("seed %d: %s with the host suffixes %v: got\n%s\nwant as from a new node cache\n%s",
							seed, name, forwarding.HostSuffixes, got, want)
					}
					fresh.running.Wait()
				}
				shared.running.Wait()
				c.running.Wait()
			}
		})
	}
}

// TestNodeCache_MaxSubqueries: the expansion of one search list sends no more than maxSubqueries queries
// to upstream servers, also if the cluster DNS refuses the rest. The node cache has the same limit.
func TestNodeCache_MaxSubqueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		upstream := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { // names without addresses: two queries each
			queries.Add(1)
			return newReply(t, q), nil
		}
		cluster := newTestServer(t, shopCluster, Config{Upstream: upstream})
		c := &clusterDNS{Server: cluster.Server}
		node := newNodeCache(t, c.forwarding(t, upstream, "a.example", "b.example", "c.example", "d.example", "e.example",
			"f.example", "g.example", "h.example"))
		m := exchangeDirect(t, node.Server, newQuery(autopathName("x", "shop"), dns.TypeA))
		node.running.Wait()
		cluster.running.Wait()
		if n := queries.Load(); m.Rcode != dns.RcodeServerFailure || n != maxSubqueries {
			t.Errorf("%s after %d queries, want SERVFAIL after %d", dns.RcodeToString[m.Rcode], n, maxSubqueries)
		}
	})
}

// TestNodeCache_Recovery: five seconds after the cluster DNS replies again, all names of the cluster
// have their current answers, however long it was away: those that were cached, those that did not
// exist, those without addresses of a family, and those that were first looked up meanwhile.
func TestNodeCache_Recovery(t *testing.T) {
	const interval = 500 * time.Millisecond
	for _, away := range []time.Duration{time.Second, 3500 * time.Millisecond, 6 * time.Second, 11 * time.Second, 40 * time.Second} {
		for name, attempt := range map[string]time.Duration{"refused": 0, "lost": 2 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					z := newZone(t, reverseRanges, shopCluster)
					c := &clusterDNS{Server: newServer(t, "", Config{Zone: z})}
					s := newNodeCache(t, c.forwardingWithAttempts(t, attempt))
					questions := []string{"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. AAAA",
						"new.shop.svc.cluster.local. A", autopathName("web", "shop") + " A", autopathName("new", "shop") + " A"}
					ask := func(d time.Duration) {
						for range d / interval {
							for _, q := range questions {
								sendQuery(t, s.Server, podAddr, parseQuery(q, true))
							}
							time.Sleep(interval)
						}
					}
					ask(10 * time.Second)
					c.down.Store(true)
					questions = append(questions, "late.shop.svc.cluster.local. A", autopathName("late", "shop")+" A")
					ask(away)
					applyObjects(t, z, "service shop/web 10.96.0.20 fd00::20\nservice shop/new 10.96.0.21\nservice shop/late 10.96.0.22")
					c.down.Store(false)
					ask(5 * time.Second)
					for i, want := range []string{"10.96.0.20", "fd00::20", "10.96.0.21", "10.96.0.20", "10.96.0.21",
						"10.96.0.22", "10.96.0.22"} {
						m := exchangeDirect(t, s.Server, parseQuery(questions[i], true))
						if !strings.Contains(replyText(m), want) {
							t.Errorf("%s: got\n%s\nwant %s", questions[i], replyText(m), want)
						}
					}
					s.running.Wait()
				})
			})
		}
	}
}

// forwardingWithAttempts returns the Forwarding of a node whose queries to the cluster DNS are sent
// twice and fail when neither is answered in the time.
func (c *clusterDNS) forwardingWithAttempts(t *testing.T, timeout time.Duration) Forwarding {
	exchange := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
		for range 2 {
			if !c.down.Load() {
				return c.exchange(ctx, m)
			}
			time.Sleep(timeout)
		}
		return nil, errUnreachable
	}
	f := c.forwarding(t, unreachable)
	f.Expander = exchange
	for i := range f.Stubs {
		f.Stubs[i].Exchange = exchange
	}
	return f
}
