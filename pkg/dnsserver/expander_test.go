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
type clusterBehind struct {
	*Server
	silent bool // it does not know the option
	down   atomic.Bool

	asked atomic.Int64
	saw   atomic.Pointer[dns.Msg] // the last query
}

func (c *clusterBehind) exchange(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	c.asked.Add(1)
	c.saw.Store(m.Copy())
	if c.down.Load() {
		return nil, errors.New("no route to host")
	}
	q := m.Copy()
	if c.silent {
		q.IsEdns0().Option = nil
	}
	packet, err := q.Pack()
	if err != nil {
		return nil, err
	}
	reply := new(dns.Msg)
	return reply, reply.Unpack(handled(ctx, c.Server, packet, overTCP, netip.MustParseAddr("10.0.0.1")))
}

// forwarding is that of a node whose hosts search these domains.
func (c *clusterBehind) forwarding(t testing.TB, upstream Exchange, hosts ...string) Forwarding {
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
func onNode(t testing.TB, f Forwarding) *testServer {
	t.Helper()
	s := &testServer{counted: prometheus.NewRegistry()}
	var err error
	if s.cache, err = cache.New(cache.Config{}); err != nil {
		t.Fatal(err)
	}
	s.Server, err = New(Config{
		Domain: mustName(t, "cluster.local"), TTL: 5, Cache: s.cache, Drain: time.Second,
		Autopath: Autopath{Allowed: []netip.Prefix{}}, Register: s.counted,
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
func TestNodeGolden(t *testing.T) {
	for _, story := range readStories(t, "testdata/node") {
		t.Run(story.name, func(t *testing.T) {
			node, silent := serveNode(t, story, false), serveNode(t, story, true)
			story.check(t, func(question string) string {
				reply := node.everyWay(t, question)
				if other := silent.everyWay(t, question); other != reply {
					reply += "without the option\n" + other
				}
				return reply
			})
		})
	}
}

// serveNode starts a server on a node of a story, whose cluster DNS may be silent about
// the option.
func serveNode(t *testing.T, story story, silent bool) *testServer {
	t.Helper()
	behind := configured(t, noChange, story.cluster, Config{Upstream: story.upstream.exchange})
	c := &clusterBehind{Server: behind.Server, silent: silent}
	fresh := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
		behind.cache.Clear() // so that no TTL has aged
		return c.exchange(ctx, m)
	}
	forwarding := c.forwarding(t, story.upstream.exchange)
	forwarding.HostSuffixes, forwarding.Expander = story.hosts, fresh
	for i := range forwarding.Stubs {
		forwarding.Stubs[i].Exchange = fresh
	}
	s := onNode(t, forwarding)
	s.run(t, "127.0.0.1:0")
	return s
}

const shop = "namespace shop\nnamespace payments\nservice shop/web 10.96.0.7\nservice payments/web 10.96.0.8\nservice payments/other 10.96.0.9\nloaded"

// below is the name that a pod of a namespace asks for.
func below(name, namespace string) string {
	return name + ".search." + namespace + ".cluster.local.ap.k8s.io."
}

// TestNodeSends has what the cluster DNS gets: the bare name with the list, and nothing
// else of the client's; never a name below the suffix.
func TestNodeSends(t *testing.T) {
	c := &clusterBehind{Server: newServer(t, shop, Config{})}
	s := onNode(t, c.forwarding(t, nil, "corp.example"))
	q := question(below("WEB", "shop"), dns.TypeAAAA, "other.example")
	q.CheckingDisabled = true
	q.IsEdns0().SetDo()
	if m := from(t, s.Server, pod(), q); m.Answer[0].Header().Name != q.Question[0].Name {
		t.Errorf("the owner is not spelled as the question: %v", m.Answer[0])
	}
	saw := c.saw.Load()
	opt := saw.IsEdns0()
	if got := saw.Question[0].String() + " " + opt.Option[0].(*dns.EDNS0_LOCAL).String(); len(opt.Option) != 1 || !opt.Do() || !saw.CheckingDisabled ||
		saw.Question[0].Name != "web." || string(opt.Option[0].(*dns.EDNS0_LOCAL).Data) != "shop.svc.cluster.local,svc.cluster.local,cluster.local,corp.example" {
		t.Errorf("it is asked %s", got)
	}
	asked := c.asked.Load()
	for _, name := range []string{"ap.k8s.io.", "other.ap.k8s.io.", "web.find.shop.cluster.local.ap.k8s.io.", "shop.cluster.local.ap.k8s.io.", "web.search.shop.other.ap.k8s.io."} {
		from(t, s.Server, pod(), question(name, dns.TypeA))
	}
	if c.asked.Load() != asked {
		t.Errorf("the cluster DNS was asked %v", c.saw.Load().Question)
	}
	// A list of the client's own counts for nothing, and is not sent on.
	if m := from(t, s.Server, pod(), question("web.svc.cluster.local.", dns.TypeA, "shop.svc.cluster.local")); m.Rcode != dns.RcodeNameError || expanded(m) || len(c.saw.Load().IsEdns0().Option) != 0 {
		t.Errorf("with a list of its own a client gets\n%v\nand the cluster DNS\n%v", m, c.saw.Load())
	}
}

// TestNodeCaches: the second look-up of a name asks nobody, and takes the quick way.
func TestNodeCaches(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, name := range []string{"web", "web.payments", "www.example", "absent.example"} {
			synctest.Test(t, func(t *testing.T) {
				c := &clusterBehind{Server: newServer(t, shop, Config{}), silent: silent}
				s := onNode(t, c.forwarding(t, parseRecords(t, "www.example. 300 IN A 192.0.2.1").exchange, "corp.example"))
				q := question(below(name, "shop"), dns.TypeA)
				from(t, s.Server, pod(), q)
				synctest.Wait() // for what a walk has asked beside the answer
				asked := c.asked.Load()
				packet, err := q.Pack()
				if err != nil {
					t.Fatal(err)
				}
				if wire, _ := handledAtOnce(t, s.Server, packet, time.Now()); wire == nil || c.asked.Load() != asked {
					t.Errorf("%s (silent: %t) is not answered from the cache", name, silent)
				}
			})
		}
	}
}

// TestNodeTTL: an answer is kept no longer than what was passed over may be absent, and one
// that is a guess not at all.
func TestNodeTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusterBehind{Server: newServer(t, shop, Config{Upstream: parseRecords(t, "web.corp.example. 300 IN A 192.0.2.1").exchange})}
		for _, silent := range []bool{false, true} {
			c.silent = silent
			s := onNode(t, c.forwarding(t, c.cfg.Upstream, "corp.example"))
			q := question(below("web", "default"), dns.TypeA) // five seconds, by the denials of the cluster
			from(t, s.Server, pod(), q)
			for _, step := range []struct {
				wait time.Duration
				asks bool
			}{{4 * time.Second, false}, {time.Second, true}} {
				time.Sleep(step.wait)
				before := c.asked.Load()
				from(t, s.Server, pod(), q)
				if asks := c.asked.Load() > before; asks != step.asks {
					t.Errorf("silent %t, after %v more: asks %t", silent, step.wait, asks)
				}
			}
			s.running.Wait()
		}
		c.running.Wait()
	})
}

// TestNodeGuess: a winner behind a suffix that nobody answers for is not kept.
func TestNodeGuess(t *testing.T) {
	for _, silent := range []bool{false, true} {
		records := parseRecords(t, "web.late.example. 300 IN A 192.0.2.1").exchange
		upstream := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
			if strings.HasSuffix(m.Question[0].Name, ".dead.example.") {
				return nil, errors.New("nobody is there")
			}
			return records(ctx, m)
		}
		c := &clusterBehind{Server: newServer(t, shop, Config{Upstream: upstream}), silent: silent}
		s := onNode(t, c.forwarding(t, upstream, "dead.example", "late.example"))
		for range 2 {
			before := c.asked.Load()
			m := from(t, s.Server, pod(), question(below("web", "default"), dns.TypeA))
			if len(m.Answer) != 2 || m.Answer[0].Header().Ttl != 0 || c.asked.Load() == before {
				t.Errorf("silent %t: asked again %t\n%v", silent, c.asked.Load() > before, m)
			}
		}
		// What nobody can say is no NXDOMAIN.
		if m := from(t, s.Server, pod(), question(below("absent", "default"), dns.TypeA)); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("silent %t: %v", silent, m)
		}
		s.running.Wait()
	}
}

// TestNodeAlone: while the cluster DNS is away clients get what was known, and SERVFAIL for
// the rest; never that a name does not exist.
func TestNodeAlone(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &clusterBehind{Server: newServer(t, shop, Config{}), silent: silent}
			s := onNode(t, c.forwarding(t, parseRecords(t, "www.example. 300 IN A 192.0.2.1").exchange))
			ask := func(name string) string {
				m := from(t, s.Server, pod(), question(name, dns.TypeA))
				return addresses(m)
			}
			known := []string{below("web", "shop"), below("web.payments", "shop"), "web.shop.svc.cluster.local."}
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
			for _, name := range []string{below("other", "payments"), below("absent", "shop"), "other.payments.svc.cluster.local.", below("www.example", "shop")} {
				if got := ask(name); got != "SERVFAIL" {
					t.Errorf("silent %t, %s, which was not known: %s", silent, name, got)
				}
			}
			if got := ask("www.example."); got != "192.0.2.1" {
				t.Errorf("a name of others: %s", got)
			}
			c.down.Store(false)
			time.Sleep(31 * time.Second) // what failed is not asked again before
			for _, name := range append(known, below("other", "payments")) {
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
func TestNodeSuffixes(t *testing.T) {
	upstream := parseRecords(t, "wiki.old.example. 300 IN A 192.0.2.1\nwiki.new.example. 300 IN A 192.0.2.2").exchange
	c := &clusterBehind{Server: newServer(t, shop, Config{Upstream: upstream})}
	s := onNode(t, c.forwarding(t, upstream, "old.example"))
	ask := func() string { return addresses(from(t, s.Server, pod(), question(below("wiki", "shop"), dns.TypeA))) }
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
func TestNodeLimits(t *testing.T) {
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
		c := &clusterBehind{Server: newServer(t, shop, Config{})}
		s := onNode(t, c.forwarding(t, nil, tt.hosts...))
		if got := addresses(from(t, s.Server, pod(), question(below("web", "shop"), dns.TypeA))); got != "10.96.0.7" {
			t.Errorf("%s: %s", tt.what, got)
		}
		paths := 0
		if options := c.saw.Load().IsEdns0().Option; len(options) > 0 {
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
func TestNodeKeepsApart(t *testing.T) {
	hosts := [][]string{nil, {"example"}, {"corp.example", "example"}, {"example", "corp.example"}, {"dead.test"}}
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // so that no TTL ages
			for seed := range uint64(40) {
				w := newWorld(seed)
				c := &clusterBehind{Server: w.server(t), silent: silent}
				forwarding := c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
				shared := onNode(t, forwarding)
				for range 40 {
					switch w.IntN(8) {
					case 0:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
						shared.SetForwarding(forwarding)
					case 1:
						forwarding = c.forwarding(t, c.cfg.Upstream, hosts[w.IntN(len(hosts))]...)
						shared.SetHostSuffixes(forwarding.HostSuffixes)
					}
					name := w.wanted()
					if w.IntN(4) > 0 {
						name += "search." + w.pick("shop", "api", "default") + ".cluster.local.ap.k8s.io."
					}
					q := question(name, []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}[w.IntN(3)])
					if w.IntN(3) == 0 { // a list of one's own
						q = question(name, dns.TypeA, w.pick("api", "shop")+".svc.cluster.local,example")
					}
					q.CheckingDisabled = w.IntN(4) == 0
					alone := onNode(t, forwarding)
					got, want := text(from(t, shared.Server, pod(), q)), text(from(t, alone.Server, pod(), q))
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
