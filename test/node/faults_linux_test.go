// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// secondDNS is another server of the cluster DNS.
var secondDNS = netip.MustParseAddr("10.96.0.11")

// How long something is away: what is restarted, and what says nothing. The second is
// more than a lookup takes that fails, save for glibc's with a list of domains.
const (
	restartTime = 3 * time.Second
	silenceTime = 12 * time.Second
)

// faults are what happens under load to a node and to the servers that it asks. lossless
// says that no lookup fails.
var faults = []struct {
	story    string
	fallback bool
	lossless bool
	happens  func(t *testing.T, s *served, l load)
}{
	{"nothing", false, true, func(*testing.T, *served, load) {}},
	{"the node cache is killed", false, false, func(t *testing.T, s *served, _ load) { s.restartNodeCache(t) }},
	{"the node cache is killed, the cluster DNS is the second server", true, false, func(t *testing.T, s *served, _ load) { s.restartNodeCache(t) }},
	{"the cluster DNS is killed", false, false, func(t *testing.T, s *served, _ load) {
		for _, pid := range s.cluster {
			s.end(t, pid, "KILL")
		}
		<-time.After(restartTime)
		s.startCluster(t)
	}},
	{"the cluster DNS hangs", false, false, func(t *testing.T, s *served, _ load) {
		s.hang(t, s.cluster...)
	}},
	{"one of two cluster DNS servers hangs", false, false, func(t *testing.T, s *served, _ load) {
		s.hang(t, s.cluster[0])
	}},
	{"the servers of a host suffix say nothing", false, false, func(t *testing.T, s *served, _ load) { s.silence(silenceTime, "node.example.") }},
	{"the node's servers say nothing", false, false, func(t *testing.T, s *served, _ load) { s.silence(silenceTime, ".") }},
	{"the node cache is upgraded ten times", false, true, func(t *testing.T, s *served, l load) {
		for i := range 10 {
			l.reach(t, 15+8*i)
			if l.done() == lookedUp {
				t.Fatalf("all lookups are done before upgrade %d", i+1)
			}
			before := s.cache
			s.startNodeCache(t)
			s.end(t, before, "TERM")
		}
	}},
}

// TestFaults looks a thousand names up while something fails: what exists is never denied,
// a lookup fails in the way that has programs try again, none fails when it is over, and
// none at all over upgrades. How long lookups take is told and not judged;
// docs/node-cache.md has the figures.
func TestFaults(t *testing.T) {
	install(t)
	program, dir := process.Build(t, t.TempDir()), t.TempDir()
	ask := map[string]string{"glibc": filepath.Join(dir, "glibc"), "musl": filepath.Join(dir, "musl")}
	compile(t, "gcc", "ask.c", ask["glibc"], "-lresolv")
	compile(t, "musl-gcc", "ask.c", ask["musl"])
	for _, f := range faults {
		t.Run(f.story, func(t *testing.T) {
			s := newServed(t, program)
			l := s.startLoad(t, ask, f.fallback)
			l.reach(t, 15)
			f.happens(t, s, l)
			l.wait(t)
			for _, p := range l.pods {
				c := l.tally(t, p)
				t.Logf("%-14s %3d found, %2d absent, %3d try again; p50 %v, p99 %v, worst %v", p, c.found, c.absent, c.again, c.part(500), c.part(990), c.part(1000))
				if len(c.wrong) > 0 {
					t.Errorf("%s: %d wrong:\n%s", p, len(c.wrong), strings.Join(c.wrong, "\n"))
				}
				if c.late > 0 {
					t.Errorf("%s: lookups fail when it is over", p)
				}
				if f.lossless && c.again > 0 {
					t.Errorf("%s: %d lookups are lost", p, c.again)
				}
			}
		})
	}
}

// served is a machine with a node cache, two servers of the cluster DNS, and the internet.
type served struct {
	*machine
	*internet
	program string
	cluster []string // process IDs
	cache   string
	caches  int // that were started
}

func newServed(t *testing.T, program string) *served {
	t.Helper()
	s := &served{machine: newBareMachine(t, ""), program: program}
	s.addAddresses(t, clusterDNS, secondDNS, nodeCache, outside)
	s.internet = s.startOutside(t, loadRecords)
	s.write(t, "objects/objects.yaml", loadObjects())
	s.startCluster(t)
	s.startNodeCache(t)
	return s
}

func (s *served) startCluster(t *testing.T) {
	t.Helper()
	s.cluster = nil
	for _, addr := range []netip.Addr{clusterDNS, secondDNS} {
		s.cluster = append(s.cluster, s.spawn(t, fmt.Sprintf("%s dns --manifests %s --listen %s --upstream %s --host-suffix node.example,corp.example",
			s.program, filepath.Join(s.dir, "objects"), at(addr), outside), "dns.log"))
	}
}

// startNodeCache starts another node cache. It returns when that has the address.
func (s *served) startNodeCache(t *testing.T) {
	t.Helper()
	s.caches++
	log := fmt.Sprintf("cache%d.log", s.caches)
	s.cache = s.spawn(t, fmt.Sprintf("%s nodecache --listen %s --cluster-dns %s --cluster-dns %s", s.program, at(nodeCache), clusterDNS, secondDNS), log)
	err := poll(30*time.Second, func() error {
		text, err := os.ReadFile(filepath.Join(s.dir, log))
		if err == nil && !strings.Contains(string(text), "msg=serving") {
			err = fmt.Errorf("the node cache does not serve:\n%s", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *served) restartNodeCache(t *testing.T) {
	t.Helper()
	s.end(t, s.cache, "KILL")
	<-time.After(restartTime)
	s.startNodeCache(t)
}

// hang stops processes for a while: they take packets, and say nothing.
func (s *served) hang(t *testing.T, pids ...string) {
	t.Helper()
	all := strings.Join(pids, " ")
	s.run(t, "kill -STOP "+all+" && echo stopped")
	<-time.After(silenceTime)
	s.run(t, "kill -CONT "+all+" && echo goes on")
}

// silence has the internet say nothing about a domain for a while.
func (i *internet) silence(d time.Duration, domain string) {
	i.silent.Store(&domain)
	<-time.After(d)
	i.silent.Store(nil)
}
