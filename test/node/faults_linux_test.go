// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// secondDNS is a second address of the cluster DNS, as some clusters have.
var secondDNS = netip.MustParseAddr("10.96.0.11")

// The duration of a fault: a restart, and a server that does not reply. The second is
// longer than a failing lookup takes, except for glibc's with a search list.
const (
	restartTime = 3 * time.Second
	silenceTime = 12 * time.Second
)

// faults are the faults of a node cache and its servers under load.
var faults = []struct {
	name     string
	two      bool // the cluster DNS has two addresses
	lossless bool // no lookup may fail
	pause    time.Duration
	happens  func(t *testing.T, s *served, l load)
}{
	{name: "nothing", lossless: true, happens: func(*testing.T, *served, load) {}},
	{name: "the node cache is killed", lossless: true, happens: restartNodeCache},
	{name: "the node cache hangs", lossless: true, happens: func(t *testing.T, s *served, _ load) { s.hang(t, s.cache) }},
	{name: "the cluster DNS is killed", happens: func(t *testing.T, s *served, _ load) {
		s.end(t, s.cluster[0], "KILL")
		<-time.After(restartTime)
		s.startCluster(t)
	}},
	{name: "the cluster DNS hangs", happens: hangCluster},
	{name: "one of two cluster DNS servers hangs", two: true, happens: hangCluster},
	{name: "the servers of a host suffix do not reply",
		happens: func(t *testing.T, s *served, _ load) { s.silence(silenceTime, "node.example.") }},
	{name: "the node's servers do not reply", happens: func(t *testing.T, s *served, _ load) { s.silence(silenceTime, ".") }},
	{name: "the node cache is upgraded ten times", lossless: true, pause: upgrade, happens: upgradeNodeCache},
}

// TestFaults looks up a thousand names during each fault. A name that exists is never
// denied, a failing lookup returns EAI_AGAIN, lookups succeed again after the fault, and none
// fails during upgrades. The durations are logged, not checked; docs/dns.md has the
// figures.
func TestFaults(t *testing.T) {
	nodetools.Install(t)
	program, dir := process.Build(t, t.TempDir()), t.TempDir()
	ask := map[string]string{"glibc": filepath.Join(dir, "glibc"), "musl": filepath.Join(dir, "musl")}
	nodetools.Compile(t, "gcc", "ask.c", ask["glibc"], "-lresolv")
	nodetools.Compile(t, "musl-gcc", "ask.c", ask["musl"])
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := newServed(t, program, f.two)
			l := s.startLoad(t, ask, cmp.Or(f.pause, pause))
			l.reach(t, 15)
			f.happens(t, s, l)
			l.wait(t)
			for _, p := range l.pods {
				c := p.tally(t, l.lines(p))
				t.Logf("%-14s %3d found, %2d absent, %3d try again; p50 %v, p99 %v, worst %v", p,
					c.found, c.absent, c.again, c.part(500), c.part(990), c.part(1000))
				if len(c.wrong) > 0 {
					t.Errorf("%s: %d wrong replies:\n%s", p, len(c.wrong), strings.Join(c.wrong, "\n"))
				}
				if f.lossless && c.again > 0 {
					t.Errorf("%s: %d lookups failed", p, c.again)
				}
				l.recovers(t, p)
			}
		})
	}
}

// served is a machine with a node cache, the cluster DNS and an upstream server.
type served struct {
	*machine
	*internet
	program string
	addrs   []netip.Addr // of the cluster DNS
	cluster []string     // process IDs
	cache   string
	caches  int // started
}

func newServed(t *testing.T, program string, two bool) *served {
	t.Helper()
	s := &served{machine: newBareMachine(t, ""), program: program, addrs: []netip.Addr{clusterDNS}}
	if two {
		s.addrs = append(s.addrs, secondDNS)
	}
	s.addAddresses(t, append([]netip.Addr{nodeCache, outside}, s.addrs...)...)
	s.internet = s.startOutside(t, loadRecords)
	s.write(t, "objects/objects.yaml", loadObjects())
	s.startCluster(t)
	s.startNodeCache(t)
	return s
}

func (s *served) startCluster(t *testing.T) {
	t.Helper()
	s.cluster = nil
	for _, addr := range s.addrs {
		s.cluster = append(s.cluster,
			s.spawn(t, fmt.Sprintf("%s dns --manifests %s --listen %s --upstream %s --host-suffix node.example,corp.example",
				s.program, filepath.Join(s.dir, "objects"), at(addr), outside), "dns.log"))
	}
}

// startNodeCache starts another node cache and returns when it serves and has a fallback.
func (s *served) startNodeCache(t *testing.T) {
	t.Helper()
	s.caches++
	log := fmt.Sprintf("cache%d.log", s.caches)
	config := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\n"+
		"listen: ['%s']\nfallbackService: dns.kube-system\nclusterDNS:\n", at(nodeCache))
	for _, addr := range s.addrs {
		config += fmt.Sprintf("- '%s'\n", addr)
	}
	s.write(t, "nodecache.yaml", config)
	command := fmt.Sprintf("%s nodecache --config %s", s.program, filepath.Join(s.dir, "nodecache.yaml"))
	s.cache = s.spawn(t, command, log)
	err := poll(func() error {
		text, err := os.ReadFile(filepath.Join(s.dir, log))
		if err == nil && !strings.Contains(string(text), `msg="fallback to the cluster DNS"`) {
			err = fmt.Errorf("the node cache does not serve:\n%s", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func restartNodeCache(t *testing.T, s *served, _ load) {
	s.end(t, s.cache, "KILL")
	<-time.After(restartTime)
	s.startNodeCache(t)
}

func upgradeNodeCache(t *testing.T, s *served, l load) {
	for i := range 10 {
		l.reach(t, 15+8*i)
		if l.done() == lookedUp {
			t.Fatalf("all lookups are done before upgrade %d", i+1)
		}
		before := s.cache
		s.startNodeCache(t)
		s.end(t, before, "TERM")
	}
}

func hangCluster(t *testing.T, s *served, _ load) { s.hang(t, s.cluster[0]) }

// hang stops a server for a while: it receives packets and does not reply.
func (s *served) hang(t *testing.T, pid string) {
	s.run(t, "kill -STOP "+pid+" && echo stopped")
	<-time.After(silenceTime)
	s.run(t, "kill -CONT "+pid+" && echo goes on")
}

// silence drops the queries for a domain for a while.
func (i *internet) silence(d time.Duration, domain string) {
	i.silent.Store(&domain)
	<-time.After(d)
	i.silent.Store(nil)
}
