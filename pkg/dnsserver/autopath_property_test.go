// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// internet is what upstream knows: each name is an alias, or has addresses or a text.
// Names above others exist. Below dead.test. nobody answers.
type internet map[string][]dns.RR

func (n internet) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	owner := q.Question[0].Name
	for range 8 {
		if dns.IsSubDomain("dead.test.", owner) {
			return nil, errors.New("nobody is there")
		}
		next := ""
		for _, rr := range n[owner] {
			if cname, ok := rr.(*dns.CNAME); ok {
				next = cname.Target
				m.Answer = append(m.Answer, rr)
			} else if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if next == "" {
			if !n.exists(owner) {
				m.Rcode = dns.RcodeNameError
			}
			if len(m.Answer) == 0 || m.Answer[len(m.Answer)-1].Header().Rrtype == dns.TypeCNAME {
				m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
			}
			return m, nil
		}
		owner = next
	}
	return nil, errors.New("aliases go round")
}

func (n internet) exists(name string) bool {
	for owner := range n {
		if dns.IsSubDomain(name, owner) {
			return true
		}
	}
	return false
}

// world is a cluster, the internet and the search domains of a host, of few words so
// that names meet.
type world struct {
	*rand.Rand
	cluster  string
	internet internet
	owners   []string // the names in it
	hosts    []string
}

func (w *world) pick(words ...string) string { return words[w.IntN(len(words))] }

// name has one to three labels.
func (w *world) name() string {
	name := ""
	for range 1 + w.IntN(3) {
		name = w.pick("web", "api", "shop", "corp", "example", "test", "svc") + "." + name
	}
	return name
}

// wanted is a name that a program may look for; half of those that exist elsewhere are
// in a domain of the host.
func (w *world) wanted() string {
	if w.IntN(5) == 0 {
		return w.name() + "svc.cluster.local."
	}
	if len(w.owners) == 0 || w.IntN(2) == 0 {
		return w.name()
	}
	owner := w.pick(w.owners...)
	for _, h := range w.hosts {
		if name, ok := strings.CutSuffix(owner, "."+h+"."); ok && w.IntN(2) == 0 {
			return name + "."
		}
	}
	return owner
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), internet: internet{}, cluster: "namespace shop\nnamespace api\nloaded\n"}
	for range w.IntN(12) {
		w.cluster += "service " + w.pick("shop", "api", "corp") + "/" + w.pick("web", "api", "corp", "example") + " " + w.pick(
			"10.96.0.1", "fd00::1", "10.96.0.1 fd00::1", "", "external="+w.name(), "external=web.shop.svc.cluster.local") + " http:tcp:80\n"
	}
	for range w.IntN(80) {
		owner := w.name()
		records := ""
		for _, kind := range strings.Split(w.pick("A", "AAAA", "A AAAA", "TXT", "CNAME"), " ") {
			records += owner + " 60 IN " + kind + " " + map[string]string{
				"A": fmt.Sprintf("192.0.2.%d", w.IntN(250)), "AAAA": fmt.Sprintf("2001:db8::%d", w.IntN(250)), "TXT": "x", "CNAME": w.name()}[kind] + "\n"
		}
		w.internet[owner], w.owners = nil, append(w.owners, owner)
		for p := dns.NewZoneParser(strings.NewReader(records), ".", ""); ; {
			rr, ok := p.Next()
			if !ok {
				break
			}
			w.internet[owner] = append(w.internet[owner], rr)
		}
	}
	for range w.IntN(4) {
		w.hosts = append(w.hosts, w.pick("corp.example", "example", "test", "corp", "api.test", "dead.test", "svc.cluster.local"))
	}
	return w
}

func (w *world) server(t testing.TB) *Server {
	var hosts []fqdn.Name
	for _, h := range w.hosts {
		hosts = append(hosts, mustName(t, h))
	}
	return newServer(t, w.cluster, Config{Upstream: w.internet.exchange, Autopath: Autopath{HostSuffixes: hosts}})
}

// lookup plays glibc in a pod whose search list is this one.
func (w *world) lookup(t testing.TB, s *Server, name, search string) libc.Result {
	t.Helper()
	over := func(via transport) libc.Exchange {
		return func(_ context.Context, _ netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			return over(t, s, via, pod(), q), nil
		}
	}
	p := libc.Simulator{Library: libc.Glibc, Network: libc.Network{UDP: over(overUDP), TCP: over(overTCP)}, Hostname: "pod",
		Resolver: libc.Glibc.Read("nameserver 10.96.0.10\nsearch " + search + "\noptions ndots:5\n")}
	r, err := p.Lookup(t.Context(), name, libc.Both)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.Addresses, netip.Addr.Compare)
	return r
}

// The inputs on which a pod with autopath gets another result than with ClusterFirst,
// by what glibc sees when it goes along the list itself.
const (
	// aServerFails: glibc goes on behind a name of the cluster that fails, and when
	// nothing is found it may call the name absent. Autopath does neither.
	aServerFails = "a candidate fails"

	// aliasWithoutAddress: glibc takes an alias for an answer and ends the search
	// without address; or it forgets one that leads nowhere. To autopath both are
	// names without addresses.
	aliasWithoutAddress = "an alias has no address"
)

func divergence(queries []libc.Query) string {
	aliases := map[string]bool{}
	addresses := map[string]bool{}
	for _, q := range queries {
		if q.Reply == nil || q.Reply.Rcode == dns.RcodeServerFailure {
			return aServerFails
		}
		for _, rr := range q.Reply.Answer {
			if rr.Header().Rrtype == dns.TypeCNAME {
				aliases[q.Name] = true
			} else {
				addresses[q.Name] = true
			}
		}
	}
	for name := range aliases {
		if !addresses[name] {
			return aliasWithoutAddress
		}
	}
	return ""
}

// TestAutopathAsGlibc looks names up in random worlds twice: with the search list of
// ClusterFirst, and with the one domain of autopath. Programs get the same, save for the
// divergences above.
func TestAutopathAsGlibc(t *testing.T) {
	same, found := 0, 0
	diverged := map[string]int{}
	queries := [2]int{}
	for seed := range uint64(200) {
		w := newWorld(seed)
		plain, auto := w.server(t), w.server(t)
		list := strings.Join(append([]string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}, w.hosts...), " ")
		for range 10 {
			name := strings.TrimSuffix(w.wanted(), ".")
			want := w.lookup(t, plain, name, list)
			got := w.lookup(t, auto, name, "search.shop.cluster.local.ap.k8s.io")
			queries[0], queries[1] = queries[0]+len(want.Queries), queries[1]+len(got.Queries)
			if slices.Equal(got.Addresses, want.Addresses) && got.Error == want.Error {
				same++
				found += min(len(want.Addresses), 1)
			} else if why := divergence(want.Queries); why != "" {
				diverged[why]++
			} else {
				t.Errorf("seed %d: %s gives %v %s, with ClusterFirst %v %s\n%s\nhosts %v\n%v",
					seed, name, got.Addresses, got.Error, want.Addresses, want.Error, w.cluster, w.hosts, w.internet)
			}
		}
	}
	t.Logf("%d look-ups give the same, %d of them addresses; %v; %d queries with ClusterFirst, %d with autopath", same, found, diverged, queries[0], queries[1])
	if found < 500 || len(diverged) != 2 {
		t.Errorf("the worlds are poor: %d found, %v", found, diverged)
	}
}

// TestAutopathNames: a name has one rcode, whatever is asked; addresses of both families
// are at the same name, and so is everything else, unless a candidate before it owns what
// is asked for and no address; below a name that does not exist there is none (RFC 8020).
func TestAutopathNames(t *testing.T) {
	compared := 0
	for seed := range uint64(150) {
		w := newWorld(seed)
		s := w.server(t)
		ask := func(name string, qtype uint16) (rcode int, target string, owned bool) {
			m := from(t, s, pod(), question(name+"search.shop.cluster.local.ap.k8s.io.", qtype))
			if len(m.Answer) > 0 {
				target = m.Answer[0].(*dns.CNAME).Target
				owned = m.Answer[len(m.Answer)-1].Header().Rrtype == qtype
			}
			return m.Rcode, target, owned
		}
		for range 10 {
			name := w.wanted()
			rcode, target, _ := ask(name, dns.TypeA)
			if rcode == dns.RcodeServerFailure {
				continue
			}
			compared++
			for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeCNAME} {
				r, other, owned := ask(name, qtype)
				byType := qtype == dns.TypeTXT && owned || qtype == dns.TypeSRV && owned
				if r != rcode || other != target && !byType {
					t.Errorf("seed %d: %s A is %s at %q, %s is %s at %q", seed, name, dns.RcodeToString[rcode], target, dns.TypeToString[qtype], dns.RcodeToString[r], other)
				}
			}
			_, above, _ := strings.Cut(name, ".")
			if above == "" || rcode == dns.RcodeNameError {
				continue
			}
			if r, _, _ := ask(above, dns.TypeA); r == dns.RcodeNameError {
				t.Errorf("seed %d: %s exists, %s does not", seed, name, above)
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d names compared", compared)
	}
}

// TestListsKeepApart: what a client is told depends on its own list alone. Every reply of
// a server to clients with many lists is the one that a new server gives.
func TestListsKeepApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no TTL ages
		for seed := range uint64(60) {
			w := newWorld(seed)
			shared := w.server(t)
			for range 30 {
				name := w.wanted()
				var lists []string
				if w.IntN(4) > 0 {
					domains := []string{w.pick("shop", "api") + ".svc.cluster.local", "cluster.local", "example", "corp.example", "test", "dead.test"}
					w.Shuffle(len(domains), func(i, j int) { domains[i], domains[j] = domains[j], domains[i] })
					lists = []string{strings.Join(domains[:1+w.IntN(len(domains))], ",")}
				} else if w.IntN(2) == 0 {
					name += "search." + w.pick("shop", "api") + ".cluster.local.ap.k8s.io."
				}
				q := question(name, []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}[w.IntN(3)], lists...)
				q.CheckingDisabled = w.IntN(4) == 0
				got, want := text(from(t, shared, pod(), q)), text(from(t, w.server(t), pod(), q))
				if got != want {
					t.Fatalf("seed %d: %s with %q gets\n%s\nof a new server\n%s", seed, name, lists, got, want)
				}
			}
			shared.running.Wait()
		}
	})
}

// TestLongNames: a name that is too long for the suffix is tried bare by the resolver
// itself; it is not found in a domain of the host any more.
func TestLongNames(t *testing.T) {
	const suffix = len("search.shop.cluster.local.ap.k8s.io.")
	long := func(n int) string { // on the wire
		return strings.Repeat(strings.Repeat("a", 59)+".", 3) + strings.Repeat("a", n-3*60-2) + "."
	}
	tests := []struct {
		length           int
		at               string
		cluster1st, auto bool
	}{
		{fqdn.MaxWire - suffix, "", true, true},
		{fqdn.MaxWire - suffix + 1, "", true, true},
		{fqdn.MaxWire - suffix, "corp.example.", true, true},
		{fqdn.MaxWire - suffix + 1, "corp.example.", true, false},
		{fqdn.MaxWire - len("shop.svc.cluster.local.") + 1, "corp.example.", false, false},
		{fqdn.MaxWire - len("shop.svc.cluster.local.") + 1, "", true, true},
	}
	for _, tt := range tests {
		name := long(tt.length)
		w := &world{hosts: []string{"corp.example"}, internet: internet{name + tt.at: {&dns.A{Hdr: header(name+tt.at, dns.TypeA, 60), A: []byte{192, 0, 2, 1}}}}, cluster: "loaded"}
		s := w.server(t)
		name = strings.TrimSuffix(name, ".")
		plain := w.lookup(t, s, name, "shop.svc.cluster.local svc.cluster.local cluster.local corp.example")
		auto := w.lookup(t, s, name, "search.shop.cluster.local.ap.k8s.io")
		if len(plain.Addresses) > 0 != tt.cluster1st || len(auto.Addresses) > 0 != tt.auto {
			t.Errorf("%d octets, at %q: ClusterFirst %v, autopath %v", tt.length, tt.at, plain.Addresses, auto.Addresses)
		}
	}
}

// BenchmarkAutopath is what an expansion costs beside a plain question for the same.
func BenchmarkAutopath(b *testing.B) {
	w := &world{hosts: []string{"corp.example", "lab.example"}, cluster: "namespace shop\nservice shop/web 10.96.0.7\nloaded",
		internet: internet{"www.example.net.": {&dns.A{Hdr: header("www.example.net.", dns.TypeA, 300), A: []byte{192, 0, 2, 1}}}}}
	s := w.server(b)
	for _, name := range []string{"web.shop.svc.cluster.local.", "web.search.shop.cluster.local.ap.k8s.io.",
		"www.example.net.", "www.example.net.search.shop.cluster.local.ap.k8s.io."} {
		b.Run(name, func(b *testing.B) {
			packet, err := question(name, dns.TypeA).Pack()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				handled(b.Context(), s, packet, overUDP, pod())
			}
		})
	}
}
