// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// The client of a load, and another client with otherRate new names a second.
var (
	loadAddr  = netip.MustParseAddr("127.66.0.2")
	otherAddr = netip.MustParseAddr("127.66.0.3")
)

const otherRate = 20

// legitimate is a load that no server has a reason to refuse. Its name is in the table of
// results.md.
type legitimate struct {
	name string
	rate float64                               // lookups a second
	next func(*server, float64) func() *lookup // the lookups, for a server and a part of the rate
	time time.Duration

	dead     float64       // queries a second beside them, for names that are never answered
	deadFrom []netip.Addr  // their clients in turn; nil: that of the load
	deadName func() []byte // nil: of the silent domain

	delay  string // label of the names of the other client
	free   bool   // the servers have the resources: nothing may fail
	behind bool   // NodeLocal DNSCache forwards some of the names to the cluster DNS
}

// deadTime is twice the time that a server waits for a reply: during the second half, as many queries wait as
// can wait at the rate.
const deadTime = 8 * time.Second

// hostSearch are the search domains of the nodes, in which no name exists.
var hostSearch = []string{"corp.20ms.internal", "dc.20ms.internal"}

// legitimates are the loads.
var legitimates = []legitimate{
	{name: "crawler or mail server: 1,000 new names/s at 20 ms, 100 dead names/s", rate: 1000, dead: 100, time: deadTime,
		next: fresh("20ms"), delay: "20ms", free: true},
	{name: "the same with 500 new names/s", rate: 500, dead: 100, time: deadTime, next: fresh("20ms"), delay: "20ms", free: true},
	{name: "pod with search lists: 600 new names/s at 20 ms, A and AAAA, two domains of the node", rate: 1200, time: 4 * time.Second,
		next: searched, delay: "20ms", free: true, behind: true},
	{name: "50 pods behind one address: 12.5 new names/s at 20 ms, 600 dead names/s", rate: 12.5, dead: 600, time: deadTime,
		next: fresh("20ms"), delay: "20ms", free: true},
	{name: "slow upstream server: 3,000 new names/s at 400 ms", rate: 3000, time: 5 * time.Second, next: fresh("400ms"), delay: "400ms"},
	{name: "slow upstream server: 3,000 new names/s at 100 ms", rate: 3000, time: 3 * time.Second, next: fresh("100ms"),
		delay: "100ms", free: true},
	{name: "cold start: 20,000 queries/s for 8,000 names at 20 ms", rate: 20000, time: 2 * time.Second, next: cold, delay: "20ms"},
	{name: "50 cluster names/s, 100 silent reverse names/s", rate: 50, dead: 100, deadName: query(dns.TypePTR, reverseOfPublic),
		time: 5 * time.Second, next: uncached, delay: "20ms", free: true, behind: true},
	{name: "200 new names/s at 20 ms, and 4,000 other clients with one dead name/s each", rate: 200, dead: 4000,
		deadFrom: addrs(4000), time: deadTime, next: fresh("20ms"), delay: "20ms", free: true},
}

// addrs returns the addresses of n clients.
func addrs(n int) []netip.Addr {
	list := make([]netip.Addr, n)
	for i := range list {
		list[i] = addr(i)
	}
	return list
}

// fresh returns lookups of new names with a label.
func fresh(delay string) func(*server, float64) func() *lookup {
	return func(*server, float64) func() *lookup {
		return func() *lookup { return lookupOf(randomLabel() + "." + delay + ".example.") }
	}
}

// cold returns lookups of one of 8,000 names, or of fewer: those that take as long at the lower rate.
func cold(_ *server, pace float64) func() *lookup {
	domain := randomLabel() + ".20ms.example."
	return func() *lookup { return lookupOf(fmt.Sprintf("n%d.%s", rand.IntN(int(8000*pace)), domain)) }
}

// uncached returns lookups of Services one after another.
func uncached(*server, float64) func() *lookup {
	i := rand.IntN(services)
	return func() *lookup {
		i = (i + 1) % services
		return serviceLookup(i)
	}
}

// searched returns lookups of a pod whose names have a search list: with autopath one query for A and one
// for AAAA, else one for each candidate until the right one, which with ndots:5 is the last.
func searched(s *server, _ float64) func() *lookup {
	list := append([]string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}, hostSearch...)
	var name string
	return func() *lookup {
		if name != "" {
			l := withSearch(s, name, list)
			l.qtype, l.want = dns.TypeAAAA, address6Of(name)
			name = ""
			return l
		}
		name = randomLabel() + ".20ms.example."
		return withSearch(s, name, list)
	}
}

func withSearch(s *server, name string, list []string) *lookup {
	l := lookupOf(name)
	if s.limit > 0 { // a server of this project
		l.name, l.aliases = name+"search.default.cluster.local.ap.k8s.io.", 1
		return l
	}
	for _, domain := range list {
		l.search = append(l.search, name+domain+".")
	}
	l.name, l.search = l.search[0], append(l.search[1:], name)
	return l
}

// TestLegitimateLoad sends each load to both servers of this project and to CoreDNS, alone and as NodeLocal
// DNSCache.
func TestLegitimateLoad(t *testing.T) {
	upstream := dnstest.Start(t, answer).Addr.String()
	cluster, node := startServers(t, upstream, hostSearch, "autopathNetworks: [127.0.0.0/8]\n")
	coreDNS, local, localCoreDNS := coreDNSServers(t, upstream, cluster)
	all := []*server{cluster, node, coreDNS, localCoreDNS, local}
	few := load{from: loadAddr, rate: 1000, next: fresh("20ms")(nil, 1)}
	report := []string{"| load |", "|---|" + strings.Repeat("---|", len(all))}
	for _, s := range all {
		report[0] += " " + s.name + " |"
		if r := run(t, few, s, time.Second/10, 1); r.failed() > 0 {
			t.Fatalf("%s: %q", s.name, r.wrong)
		}
	}
	pace := calibrate(t, few, coreDNS)
	t.Cleanup(func() { t.Logf("failed lookups, %%: of the load, of another client\n%s", strings.Join(report, "\n")) })
	for _, l := range legitimates {
		t.Run(strings.NewReplacer(" ", "_", "/s", "").Replace(l.name), func(t *testing.T) {
			results := map[*server]carried{}
			line := "| " + l.name + " |"
			for _, s := range all {
				if s == local && !l.behind {
					line += " - |"
					continue
				}
				s.resetPeak(t)
				results[s] = l.carry(t, s, pace)
				s.checkPeak(t)
				line += " " + results[s].String() + " |"
				t.Logf("%s: %s; %d MiB", s.name, results[s].detail(), s.peak(t))
			}
			report = append(report, line)
			l.check(t, cluster, results[cluster], coreDNS, results[coreDNS])
			l.check(t, node, results[node], coreDNS, results[coreDNS])
			if l.behind {
				l.check(t, local, results[local], localCoreDNS, results[localCoreDNS])
			}
		})
	}
	// The networks of the node caches are configured: a search list that is not expanded has another reason.
	if log, err := os.ReadFile(node.LogFile); err != nil || strings.Contains(string(log), "autopathNetworks") {
		t.Errorf("the node cache logs advice about autopathNetworks, which is configured: %v\n%s", err, node.Log())
	}
}

// carried is what the clients of a load got.
type carried struct{ load, other *result }

func (c carried) String() string {
	return fmt.Sprintf("%s, %s", percent(c.load.failed()), percent(c.other.failed()))
}

func percent(share float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0") }

func (c carried) detail() string {
	return fmt.Sprintf("%d lookups, %d failed, %d queries again, median %v; other client %d, %d failed; %q", sum(c.load.sent),
		sum(c.load.sent)-sum(c.load.right), c.load.again, c.load.quantile(0.5), sum(c.other.sent),
		sum(c.other.sent)-sum(c.other.right), append(c.load.wrong, c.other.wrong...))
}

// failed returns the share of lookups without a right reply.
func (r *result) failed() float64 { return 1 - float64(sum(r.right))/float64(max(1, sum(r.sent))) }

func sum(counts [numKinds]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// carry sends the load to a server, beside another client.
func (l legitimate) carry(t *testing.T, s *server, pace float64) (c carried) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	if l.dead > 0 {
		from, name := l.deadFrom, l.deadName
		if from == nil {
			from = []netip.Addr{loadAddr}
		}
		if name == nil {
			name = askSilent
		}
		running.Go(func() { sendFrom(ctx, &attacker{t: t, to: s.addr, pace: pace}, from, int(l.dead), name) })
	}
	var err error
	running.Go(func() {
		var otherErr error
		c.other, otherErr = load{from: otherAddr, rate: otherRate, next: fresh(l.delay)(s, 1)}.run(s.addr, l.time, 1)
		if otherErr != nil {
			t.Error(otherErr)
		}
	})
	c.load, err = load{from: loadAddr, rate: l.rate, next: l.next(s, pace)}.run(s.addr, l.time, pace)
	cancel()
	running.Wait()
	if err != nil || c.other == nil {
		t.Fatal(err)
	}
	return c
}

// check compares the result of a server of this project with that of CoreDNS.
func (l legitimate) check(t *testing.T, s *server, got carried, bar *server, want carried) {
	t.Helper()
	limit := 0.0
	if !l.free {
		limit = want.load.failed() + tolerance(want.load)
	}
	if got.load.failed() > limit {
		t.Errorf("%s: %s %% of the lookups failed, want at most %s %% (%s: %s %%):\n%s", s.name, percent(got.load.failed()),
			percent(limit), bar.name, percent(want.load.failed()), strings.Join(got.load.wrong, "\n"))
	}
	if got.other.failed() > 0 {
		t.Errorf("%s: %s %% of the lookups of another client failed, want 0:\n%s", s.name, percent(got.other.failed()),
			strings.Join(got.other.wrong, "\n"))
	}
}

// tolerance is three standard deviations of the difference between two shares of as many lookups, if one
// or more fail.
func tolerance(r *result) float64 {
	n := float64(max(1, sum(r.sent)))
	p := max(r.failed(), 1/n)
	return 3 * math.Sqrt(2*p*(1-p)/n)
}

// TestLoads_Documented: each load is in the table of results.md.
func TestLoads_Documented(t *testing.T) {
	page := must.Get(os.ReadFile("results.md"))(t)
	for _, l := range legitimates {
		if !strings.Contains(string(page), "\n| "+l.name+" |") {
			t.Errorf("results.md has no row %q", l.name)
		}
	}
}
