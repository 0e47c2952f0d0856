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
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// recordTree is the records of an upstream server by owner: each name is an alias, or owns
// addresses or a TXT record. Unlike those of recordSet, empty non-terminals exist. Names in
// dead.test are not answered.
type recordTree map[string][]dns.RR

func (r recordTree) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	owner := q.Question[0].Name
	for range 8 {
		if dns.IsSubDomain("dead.test.", owner) {
			return nil, errUnreachable
		}
		next := ""
		for _, rr := range r[owner] {
			if cname, ok := rr.(*dns.CNAME); ok {
				next = cname.Target
				m.Answer = append(m.Answer, rr)
			} else if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if next == "" {
			if !r.exists(owner) {
				m.Rcode = dns.RcodeNameError
			}
			if len(m.Answer) == 0 || m.Answer[len(m.Answer)-1].Header().Rrtype == dns.TypeCNAME {
				m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
			}
			return m, nil
		}
		owner = next
	}
	return nil, errors.New("alias loop")
}

func (r recordTree) exists(name string) bool {
	for owner := range r {
		if dns.IsSubDomain(name, owner) {
			return true
		}
	}
	return false
}

// scenario is a random cluster with an upstream server and the search domains of a host. Names
// are made of few labels, so that many candidates exist.
type scenario struct {
	*rand.Rand
	cluster      string
	upstream     recordTree
	owners       []string // in upstream
	hostSuffixes []string
}

func (sc *scenario) pick(words ...string) string { return words[sc.IntN(len(words))] }

// randomName returns a name of one to three labels.
func (sc *scenario) randomName() string {
	name := ""
	for range 1 + sc.IntN(3) {
		name = sc.pick("web", "api", "shop", "corp", "example", "test", "svc") + "." + name
	}
	return name
}

// lookupName returns a name that a program may look up. Half of the names that exist in a search
// domain of the host are without that domain.
func (sc *scenario) lookupName() string {
	if sc.IntN(5) == 0 {
		return sc.randomName() + "svc.cluster.local."
	}
	if len(sc.owners) == 0 || sc.IntN(2) == 0 {
		return sc.randomName()
	}
	owner := sc.pick(sc.owners...)
	for _, h := range sc.hostSuffixes {
		if name, ok := strings.CutSuffix(owner, "."+h+"."); ok && sc.IntN(2) == 0 {
			return name + "."
		}
	}
	return owner
}

// newScenario returns the scenario of a seed.
func newScenario(seed uint64) *scenario {
	sc := &scenario{Rand: rand.New(rand.NewPCG(seed, 0)), upstream: recordTree{}, cluster: "namespace shop\nnamespace api\nloaded\n"}
	for range sc.IntN(12) {
		sc.cluster += "service " + sc.pick("shop", "api", "corp") + "/" + sc.pick("web", "api", "corp", "example") + " " + sc.pick(
			"10.96.0.1", "fd00::1", "10.96.0.1 fd00::1", "", "external="+sc.randomName(),
			"external=web.shop.svc.cluster.local") + " http:tcp:80\n"
	}
	for range sc.IntN(80) {
		owner := sc.randomName()
		records := ""
		for _, kind := range strings.Split(sc.pick("A", "AAAA", "A AAAA", "TXT", "CNAME"), " ") {
			records += owner + " 60 IN " + kind + " " + map[string]string{
				"A": fmt.Sprintf("192.0.2.%d", sc.IntN(250)), "AAAA": fmt.Sprintf("2001:db8::%d", sc.IntN(250)),
				"TXT": "x", "CNAME": sc.randomName()}[kind] + "\n"
		}
		sc.upstream[owner], sc.owners = nil, append(sc.owners, owner)
		for p := dns.NewZoneParser(strings.NewReader(records), ".", ""); ; {
			rr, ok := p.Next()
			if !ok {
				break
			}
			sc.upstream[owner] = append(sc.upstream[owner], rr)
		}
	}
	for range sc.IntN(4) {
		sc.hostSuffixes = append(sc.hostSuffixes,
			sc.pick("corp.example", "example", "test", "corp", "api.test", "dead.test", "svc.cluster.local"))
	}
	return sc
}

func (sc *scenario) newServer(t testing.TB) *Server {
	var hosts []fqdn.Name
	for _, h := range sc.hostSuffixes {
		hosts = append(hosts, mustName(t, h))
	}
	return newServer(t, sc.cluster, Config{Upstream: sc.upstream.exchange, Autopath: Autopath{HostSuffixes: hosts}})
}

// simulateLookup looks a name up as glibc does in a pod with the search list.
func (sc *scenario) simulateLookup(t testing.TB, s *Server, name, search string) libc.Result {
	t.Helper()
	exchange := func(via transport) libc.Exchange {
		return func(_ context.Context, _ netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			return exchangeVia(t, s, via, podAddr, q), nil
		}
	}
	simulator := libc.Simulator{Library: libc.Glibc, Network: libc.Network{UDP: exchange(overUDP), TCP: exchange(overTCP)}, Hostname: "pod",
		Resolver: libc.Glibc.Read("nameserver 10.96.0.10\nsearch " + search + "\noptions ndots:5\n")}
	r := must.Get(simulator.Lookup(t.Context(), name, libc.Both))(t)
	slices.SortFunc(r.Addresses, netip.Addr.Compare)
	return r
}

// The inputs for which a pod with autopath gets another result than with ClusterFirst, by the
// replies that glibc gets with ClusterFirst.
const (
	// candidateFails: glibc tries the next candidate when a name of the cluster fails, and
	// may report that the name does not exist. Autopath does neither.
	candidateFails = "a candidate fails"

	// aliasWithoutAddress: glibc ends the search at an alias whose target has no address,
	// or ignores an alias whose target does not exist. Autopath treats both as names
	// without addresses.
	aliasWithoutAddress = "an alias has no address"
)

// divergence returns why autopath may give another result, or "".
func divergence(queries []libc.Query) string {
	aliases := map[string]bool{}
	addresses := map[string]bool{}
	for _, q := range queries {
		if q.Reply == nil || q.Reply.Rcode == dns.RcodeServerFailure {
			return candidateFails
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

// TestSearch_AgreesWithGlibc looks names up in random scenarios: with the search list of
// ClusterFirst, and with the single search domain of autopath. The results are the same, except for
// the divergences above.
func TestSearch_AgreesWithGlibc(t *testing.T) {
	same, found := 0, 0
	diverged := map[string]int{}
	queries := [2]int{}
	for seed := range uint64(200) {
		sc := newScenario(seed)
		clusterFirst, auto := sc.newServer(t), sc.newServer(t)
		list := strings.Join(append([]string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}, sc.hostSuffixes...), " ")
		for range 10 {
			name := strings.TrimSuffix(sc.lookupName(), ".")
			want := sc.simulateLookup(t, clusterFirst, name, list)
			got := sc.simulateLookup(t, auto, name, "search.shop.cluster.local.ap.k8s.io")
			queries[0], queries[1] = queries[0]+len(want.Queries), queries[1]+len(got.Queries)
			if slices.Equal(got.Addresses, want.Addresses) && got.Error == want.Error {
				same++
				found += min(len(want.Addresses), 1)
			} else if reason := divergence(want.Queries); reason != "" {
				diverged[reason]++
			} else {
				t.Errorf("seed %d: %s: got %v %s, want %v %s as with ClusterFirst\n%s\nhost suffixes %v\n%v",
					seed, name, got.Addresses, got.Error, want.Addresses, want.Error, sc.cluster, sc.hostSuffixes, sc.upstream)
			}
		}
	}
	t.Logf("%d lookups with the same result, %d of them with addresses; diverged: %v; %d queries "+
		"with ClusterFirst, %d with autopath", same, found, diverged, queries[0], queries[1])
	if found < 500 || len(diverged) != 2 {
		t.Errorf("the scenarios are not varied enough: got %d lookups with addresses and the "+
			"divergences %v, want at least 500 and 2 kinds", found, diverged)
	}
}

// TestSearch_TypesAgree: all query types for a name give the same rcode. Addresses of both
// families are of the same candidate, and so are all other types, unless an earlier candidate
// owns the type and no address. No name exists below one that does not (RFC 8020).
func TestSearch_TypesAgree(t *testing.T) {
	compared := 0
	for seed := range uint64(150) {
		sc := newScenario(seed)
		s := sc.newServer(t)
		lookup := func(name string, qtype uint16) (rcode int, target string, owned bool) {
			m := exchangeDirect(t, s, newQuery(autopathName(name, "shop"), qtype))
			if len(m.Answer) > 0 {
				target = m.Answer[0].(*dns.CNAME).Target
				owned = m.Answer[len(m.Answer)-1].Header().Rrtype == qtype
			}
			return m.Rcode, target, owned
		}
		for range 10 {
			name := sc.lookupName()
			rcode, target, _ := lookup(name, dns.TypeA)
			if rcode == dns.RcodeServerFailure {
				continue
			}
			compared++
			for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeCNAME} {
				r, other, owned := lookup(name, qtype)
				byType := qtype == dns.TypeTXT && owned || qtype == dns.TypeSRV && owned
				if r != rcode || other != target && !byType {
					t.Errorf("seed %d: %s: A gets %s from %q, but %s gets %s from %q", seed, name,
						dns.RcodeToString[rcode], target, dns.TypeToString[qtype], dns.RcodeToString[r], other)
				}
			}
			_, above, _ := strings.Cut(name, ".")
			if above == "" || rcode == dns.RcodeNameError {
				continue
			}
			if r, _, _ := lookup(above, dns.TypeA); r == dns.RcodeNameError {
				t.Errorf("seed %d: %s exists, but %s above it does not", seed, name, above)
			}
		}
	}
	if compared < 1000 {
		t.Errorf("compared %d names, want at least 1000", compared)
	}
}

// TestSearch_CacheIsolation: a reply depends on the search list of its own query only. Each
// reply of a server that gets queries with many lists is the same as that of a new server.
func TestSearch_CacheIsolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // TTLs do not age in fake time
		for seed := range uint64(60) {
			sc := newScenario(seed)
			shared := sc.newServer(t)
			for range 30 {
				name := sc.lookupName()
				var lists []string
				// A search list of names without addresses costs two upstream queries for
				// each, and three for TXT. Above maxSubqueries the result depends on the cache.
				qtype, longest := []uint16{dns.TypeA, dns.TypeAAAA}[sc.IntN(2)], 6
				if sc.IntN(3) == 0 {
					qtype, longest = dns.TypeTXT, 2
				}
				if qtype == dns.TypeTXT || sc.IntN(4) > 0 {
					domains := []string{sc.pick("shop", "api") + ".svc.cluster.local", "cluster.local",
						"example", "corp.example", "test", "dead.test"}
					sc.Shuffle(len(domains), func(i, j int) { domains[i], domains[j] = domains[j], domains[i] })
					lists = []string{strings.Join(domains[:1+sc.IntN(longest)], ",")}
				} else if sc.IntN(2) == 0 {
					name += "search." + sc.pick("shop", "api") + ".cluster.local.ap.k8s.io."
				}
				q := newQuery(name, qtype, lists...)
				q.CheckingDisabled = sc.IntN(4) == 0
				got, want := replyText(exchangeDirect(t, shared, q)), replyText(exchangeDirect(t, sc.newServer(t), q))
				if got != want {
					t.Fatalf("seed %d: %s with the lists %q: got\n%s\nwant as from a new server\n%s", seed, name, lists, got, want)
				}
			}
			shared.running.Wait()
		}
	})
}
