// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// clusterBehind is a cluster DNS as servers on nodes see it.
type clusterDNS struct {
	*Server
	ignoresOption bool // it does not know the option
	down          atomic.Bool

	queries   atomic.Int64
	lastQuery atomic.Pointer[dns.Msg] // the last query
}

func (c *clusterDNS) exchange(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	c.queries.Add(1)
	c.lastQuery.Store(m.Copy())
	if c.down.Load() {
		return nil, errors.New("no route to host")
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

// forwarding is that of a node whose hosts search these domains.
func (c *clusterDNS) forwarding(t testing.TB, upstream Exchange, hosts ...string) Forwarding {
	f := Forwarding{Upstream: upstream, Expander: c.exchange}
	for _, zone := range []string{"cluster.local", "in-addr.arpa", "ip6.arpa"} {
		f.Stubs = append(f.Stubs, Stub{Zone: mustName(t, zone), Exchange: c.exchange})
	}
	for _, host := range hosts {
		f.HostSuffixes = append(f.HostSuffixes, mustName(t, host))
	}
	return f
}

// onNode returns a server on a node, without sockets.
func newNodeCache(t testing.TB, f Forwarding) *testServer {
	t.Helper()
	s := &testServer{registry: prometheus.NewRegistry()}
	var err error
	if s.cache, err = cache.New(cache.Config{}); err != nil {
		t.Fatal(err)
	}
	s.Server, err = New(Config{
		Domain: mustName(t, "cluster.local"), TTL: 5, Cache: s.cache, Drain: time.Second,
		Autopath: Autopath{Allowed: []netip.Prefix{}}, Register: s.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.SetForwarding(f)
	return s
}

// TestNodeGolden has clusters, and what clients of a server on a node see. Each question
// is put to two nodes. The cluster DNS of one knows the option, that of the other does not;
// what that one sees is behind "without the option" where it is something else: the
// cluster DNS does not say that the name found is the bare one if that owns nothing of
// the type.
func TestGolden_NodeCache(t *testing.T) {
	for _, story := range readGoldenFiles(t, "testdata/node") {
		t.Run(story.name, func(t *testing.T) {
			node, silent := startNodeCache(t, story, false), startNodeCache(t, story, true)
			story.check(t, func(question string) string {
				reply := node.consistentReply(t, question)
				if other := silent.consistentReply(t, question); other != reply {
					reply += "without the option\n" + other
				}
				return reply
			})
		})
	}
}

// serveNode starts a server on a node of a story, whose cluster DNS may be silent about
// the option.
func startNodeCache(t *testing.T, story goldenFile, silent bool) *testServer {
	t.Helper()
	behind := configured(t, noChange, story.cluster, Config{Upstream: story.upstream.exchange})
	c := &clusterDNS{Server: behind.Server, ignoresOption: silent}
	fresh := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
		behind.cache.Clear() // so that no TTL has aged
		return c.exchange(ctx, m)
	}
	forwarding := c.forwarding(t, story.upstream.exchange)
	forwarding.HostSuffixes, forwarding.Expander = story.hosts, fresh
	for i := range forwarding.Stubs {
		forwarding.Stubs[i].Exchange = fresh
	}
	s := newNodeCache(t, forwarding)
	s.serveOn(t, "127.0.0.1:0")
	return s
}

const shopCluster = "namespace shop\nnamespace payments\nservice shop/web 10.96.0.7\nservice payments/web 10.96.0.8\nservice payments/other 10.96.0.9\nloaded"

// below is the name that a pod of a namespace asks for.
func autopathName(name, namespace string) string {
	return name + ".search." + namespace + ".cluster.local.ap.k8s.io."
}

// TestNodeSends has what the cluster DNS gets: the bare name with the list, and nothing
// else of the client's; never a name below the suffix.
func TestNodeCache_ExpanderQuery(t *testing.T) {
	c := &clusterDNS{Server: newServer(t, shopCluster, Config{})}
	s := newNodeCache(t, c.forwarding(t, nil, "corp.example"))
	q := newQuery(autopathName("WEB", "shop"), dns.TypeAAAA, "other.example")
	q.CheckingDisabled = true
	q.IsEdns0().SetDo()
	if m := exchangeFrom(t, s.Server, pod(), q); m.Answer[0].Header().Name != q.Question[0].Name {
		t.Errorf("the owner is not spelled as the question: %v", m.Answer[0])
	}
	saw := c.lastQuery.Load()
	opt := saw.IsEdns0()
	if got := saw.Question[0].String() + " " + opt.Option[0].(*dns.EDNS0_LOCAL).String(); len(opt.Option) != 1 || !opt.Do() || !saw.CheckingDisabled ||
		saw.Question[0].Name != "web." || string(opt.Option[0].(*dns.EDNS0_LOCAL).Data) != "shop.svc.cluster.local,svc.cluster.local,cluster.local,corp.example" {
		t.Errorf("it is asked %s", got)
	}
	asked := c.queries.Load()
	for _, name := range []string{"ap.k8s.io.", "other.ap.k8s.io.", "web.find.shop.cluster.local.ap.k8s.io.", "shop.cluster.local.ap.k8s.io.", "web.search.shop.other.ap.k8s.io."} {
		exchangeFrom(t, s.Server, pod(), newQuery(name, dns.TypeA))
	}
	if c.queries.Load() != asked {
		t.Errorf("the cluster DNS was asked %v", c.lastQuery.Load().Question)
	}
	// A list of the client's own counts for nothing, and is not sent on.
	if m := exchangeFrom(t, s.Server, pod(), newQuery("web.svc.cluster.local.", dns.TypeA, "shop.svc.cluster.local")); m.Rcode != dns.RcodeNameError || isExpanded(m) || len(c.lastQuery.Load().IsEdns0().Option) != 0 {
		t.Errorf("with a list of its own a client gets\n%v\nand the cluster DNS\n%v", m, c.lastQuery.Load())
	}
}

// TestNodeCaches: the second look-up of a name asks nobody, and takes the quick way.
func TestNodeCache_CachesExpansions(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, name := range []string{"web", "web.payments", "www.example", "absent.example"} {
			synctest.Test(t, func(t *testing.T) {
				c := &clusterDNS{Server: newServer(t, shopCluster, Config{}), ignoresOption: silent}
				s := newNodeCache(t, c.forwarding(t, parseRecords(t, "www.example. 300 IN A 192.0.2.1").exchange, "corp.example"))
				q := newQuery(autopathName(name, "shop"), dns.TypeA)
				exchangeFrom(t, s.Server, pod(), q)
				synctest.Wait() // for what a walk has asked beside the answer
				asked := c.queries.Load()
				packet, err := q.Pack()
				if err != nil {
					t.Fatal(err)
				}
				if wire, _ := handleWithoutWait(t, s.Server, packet, time.Now()); wire == nil || c.queries.Load() != asked {
					t.Errorf("%s (silent: %t) is not answered from the cache", name, silent)
				}
			})
		}
	}
}

// TestNodeTTL: an answer is kept no longer than what was passed over may be absent, and one
// that is a guess not at all.
func TestNodeCache_TTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{Upstream: parseRecords(t, "web.corp.example. 300 IN A 192.0.2.1").exchange})}
		for _, silent := range []bool{false, true} {
			c.ignoresOption = silent
			s := newNodeCache(t, c.forwarding(t, c.cfg.Upstream, "corp.example"))
			q := newQuery(autopathName("web", "default"), dns.TypeA) // five seconds, by the denials of the cluster
			exchangeFrom(t, s.Server, pod(), q)
			for _, step := range []struct {
				wait time.Duration
				asks bool
			}{{4 * time.Second, false}, {time.Second, true}} {
				time.Sleep(step.wait)
				before := c.queries.Load()
				exchangeFrom(t, s.Server, pod(), q)
				if asks := c.queries.Load() > before; asks != step.asks {
					t.Errorf("silent %t, after %v more: asks %t", silent, step.wait, asks)
				}
			}
			s.running.Wait()
		}
		c.running.Wait()
	})
}

// TestNodeGuess: a winner behind a suffix that nobody answers for is not kept.
func TestNodeCache_UnresolvedSuffix(t *testing.T) {
	for _, silent := range []bool{false, true} {
		records := parseRecords(t, "web.late.example. 300 IN A 192.0.2.1").exchange
		upstream := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
			if strings.HasSuffix(m.Question[0].Name, ".dead.example.") {
				return nil, errors.New("nobody is there")
			}
			return records(ctx, m)
		}
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{Upstream: upstream}), ignoresOption: silent}
		s := newNodeCache(t, c.forwarding(t, upstream, "dead.example", "late.example"))
		for range 2 {
			before := c.queries.Load()
			m := exchangeFrom(t, s.Server, pod(), newQuery(autopathName("web", "default"), dns.TypeA))
			if len(m.Answer) != 2 || m.Answer[0].Header().Ttl != 0 || c.queries.Load() == before {
				t.Errorf("silent %t: asked again %t\n%v", silent, c.queries.Load() > before, m)
			}
		}
		// What nobody can say is no NXDOMAIN.
		if m := exchangeFrom(t, s.Server, pod(), newQuery(autopathName("absent", "default"), dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("silent %t: %v", silent, m)
		}
		s.running.Wait()
	}
}

// TestNodeAlone: while the cluster DNS is away clients get what was known, and SERVFAIL for
// the rest; never that a name does not exist.
func TestNodeCache_ClusterDNSDown(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &clusterDNS{Server: newServer(t, shopCluster, Config{}), ignoresOption: silent}
			s := newNodeCache(t, c.forwarding(t, parseRecords(t, "www.example. 300 IN A 192.0.2.1").exchange))
			ask := func(name string) string {
				m := exchangeFrom(t, s.Server, pod(), newQuery(name, dns.TypeA))
				return addresses(m)
			}
			known := []string{autopathName("web", "shop"), autopathName("web.payments", "shop"), "web.shop.svc.cluster.local."}
			for _, name := range known {
				ask(name)
			}
			c.down.Store(true)
			time.Sleep(10 * time.Second)
			for _, name := range known {
				if got := ask(name); got != "10.96.0.7" && got != "10.96.0.8" {
					t.Errorf("silent %t, %s: %s", silent, name, got)
				}
			}
			for _, name := range []string{autopathName("other", "payments"), autopathName("absent", "shop"), "other.payments.svc.cluster.local.", autopathName("www.example", "shop")} {
				if got := ask(name); got != "SERVFAIL" {
					t.Errorf("silent %t, %s, which was not known: %s", silent, name, got)
				}
			}
			if got := ask("www.example."); got != "192.0.2.1" {
				t.Errorf("a name of others: %s", got)
			}
			c.down.Store(false)
			time.Sleep(31 * time.Second) // what failed is not asked again before
			for _, name := range append(known, autopathName("other", "payments")) {
				if got := ask(name); got == "SERVFAIL" {
					t.Errorf("silent %t, %s, the cluster DNS is back: %s", silent, name, got)
				}
			}
			s.running.Wait()
		})
	}
}

// TestNodeSuffixes: pods that run search the host's new domains as soon as it does. What
// was found along other lists is not forgotten.
func TestNodeCache_SetHostSuffixes(t *testing.T) {
	upstream := parseRecords(t, "wiki.old.example. 300 IN A 192.0.2.1\nwiki.new.example. 300 IN A 192.0.2.2").exchange
	c := &clusterDNS{Server: newServer(t, shopCluster, Config{Upstream: upstream})}
	s := newNodeCache(t, c.forwarding(t, upstream, "old.example"))
	ask := func() string {
		return addresses(exchangeFrom(t, s.Server, pod(), newQuery(autopathName("wiki", "shop"), dns.TypeA)))
	}
	before := ask()
	s.SetHostSuffixes(c.forwarding(t, upstream, "new.example").HostSuffixes)
	after := ask()
	s.SetHostSuffixes(c.forwarding(t, upstream, "old.example").HostSuffixes)
	c.down.Store(true)
	if again := ask(); before != "192.0.2.1" || after != "192.0.2.2" || again != before {
		t.Errorf("before %s, after %s, and then %s again", before, after, again)
	}
}

// TestNodeLimits has both sides of what fits into the option, and into a list.
func TestNodeCache_OptionLimits(t *testing.T) {
	// The cluster's domains take shop.svc.cluster.local,svc.cluster.local,cluster.local,
	const cluster = len("shop.svc.cluster.local,svc.cluster.local,cluster.local")
	long := func(n, length int) []string { // n domains, which take length octets of the option
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
		what  string
		hosts []string
		paths int // that the option has; 0: there is none
	}{
		{"as many as there may be", long(MaxHostSuffixes, MaxHostSuffixes*8), autopath.MaxPaths},
		{"one more", long(MaxHostSuffixes+1, (MaxHostSuffixes+1)*8), autopath.MaxPaths},
		{"as long as it may be", long(10, autopath.MaxText-cluster), 13},
		{"one octet more", long(10, autopath.MaxText-cluster+1), 0},
	} {
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{})}
		s := newNodeCache(t, c.forwarding(t, nil, tt.hosts...))
		if got := addresses(exchangeFrom(t, s.Server, pod(), newQuery(autopathName("web", "shop"), dns.TypeA))); got != "10.96.0.7" {
			t.Errorf("%s: %s", tt.what, got)
		}
		paths := 0
		if options := c.lastQuery.Load().IsEdns0().Option; len(options) > 0 {
			list, err := autopath.Decode(options[0].(*dns.EDNS0_LOCAL).Data)
			if err != nil {
				t.Errorf("%s: %v", tt.what, err)
			}
			paths = len(list)
		}
		if paths != tt.paths {
			t.Errorf("%s: %d domains in the option, want %d", tt.what, paths, tt.paths)
		}
	}
}

// TestNodeKeepsApart: what a pod gets from a node does not depend on what other pods have
// asked before, nor on what the hosts have searched before. Every reply is the one of a
// node that has just started.
func TestNodeCache_CacheIsolation(t *testing.T) {
	hosts := [][]string{nil, {"example"}, {"corp.example", "example"}, {"example", "corp.example"}, {"dead.test"}}
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // so that no TTL ages
			for seed := range uint64(40) {
				w := newScenario(seed)
				c := &clusterDNS{Server: w.newServer(t), ignoresOption: silent}
				forwarding := c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
				shared := newNodeCache(t, forwarding)
				for range 40 {
					switch w.IntN(8) {
					case 0:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
						shared.SetForwarding(forwarding)
					case 1:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
						shared.SetHostSuffixes(forwarding.HostSuffixes)
					}
					name := w.lookupName()
					if w.IntN(4) > 0 {
						name += "search." + w.pick("shop", "api", "default") + ".cluster.local.ap.k8s.io."
					}
					q := newQuery(name, []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}[w.IntN(3)])
					if w.IntN(3) == 0 { // a list of one's own
						q = newQuery(name, dns.TypeA, w.pick("api", "shop")+".svc.cluster.local,example")
					}
					q.CheckingDisabled = w.IntN(4) == 0
					alone := newNodeCache(t, forwarding)
					got, want := replyText(exchangeFrom(t, shared.Server, pod(), q)), replyText(exchangeFrom(t, alone.Server, pod(), q))
					if got != want {
						t.Fatalf("seed %d: %s with the hosts' %v gets\n%s\nof a new node\n%s", seed, name, forwarding.HostSuffixes, got, want)
					}
					alone.running.Wait()
				}
				shared.running.Wait()
				c.running.Wait()
			}
		})
	}
}
