// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// The servers of the machine.
var (
	clusterDNS = facts().ClusterDNS[0]
	secondDNS  = netip.MustParseAddr("10.96.0.11") // of the cluster DNS, as some clusters have
	nodeCache  = facts().Autopath.NodeCache
	outside    = netip.MustParseAddr("192.0.2.53") // as in the machine's resolv.conf
)

// at returns the address of a DNS server.
func at(addr netip.Addr) string { return netip.AddrPortFrom(addr, 53).String() }

// The duration of a fault: a restart, and a server that does not reply. The second is
// longer than a failing lookup takes, except for glibc's with a search list.
const (
	restartTime = 3 * time.Second
	silenceTime = 12 * time.Second
)

// A fault happens to a node cache or its servers under load.
type fault struct {
	name     string
	two      bool // the cluster DNS has two addresses
	lossless bool // no lookup may fail
	pause    time.Duration
	log      string // directory of the node cache's log, with a slash at the end; "": that of the machine
	happens  func(t *testing.T, s *served, l load)
}

var faults = []fault{
	{name: "nothing", lossless: true, happens: func(*testing.T, *served, load) {}},
	{name: "the node cache is killed", lossless: true, happens: restartNodeCache},
	{name: "the node cache hangs", lossless: true, happens: func(t *testing.T, s *served, _ load) { s.hang(t, s.cache) }},
	{name: "the readers of the node cache hang", lossless: true, happens: hangReaders},
	{name: "the node cache exceeds its memory limit", lossless: true, happens: exhaustMemory},
	{name: "the disk of the node cache is full", lossless: true, log: "small/", happens: fillDisk},
	{name: "the node cache starts with a bad file again and again", lossless: true, happens: restartWithBadFile},
	{name: "the node cache is uninstalled", lossless: true, happens: func(t *testing.T, s *served, _ load) { s.end(t, s.cache, "TERM") }},
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
	program, ask := process.Build(t, t.TempDir()), compileAsk(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := newServed(t, served{program: program, logs: f.log}, f.two)
			if failed := s.lookUpDuring(t, ask, f); f.lossless && failed > 0 {
				t.Errorf("%d lookups failed", failed)
			}
		})
	}
}

// compileAsk returns the program that looks up names, for each library.
func compileAsk(t *testing.T) map[string]string {
	dir := t.TempDir()
	ask := map[string]string{"glibc": filepath.Join(dir, "glibc"), "musl": filepath.Join(dir, "musl")}
	nodetools.Compile(t, "gcc", "ask.c", ask["glibc"], "-lresolv")
	nodetools.Compile(t, "musl-gcc", "ask.c", ask["musl"])
	return ask
}

// lookUpDuring looks up names during a fault, and returns how many lookups failed. A wrong reply is an error.
func (s *served) lookUpDuring(t *testing.T, ask map[string]string, f fault) (failed int) {
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
		failed += c.again
		l.recovers(t, p)
	}
	return failed
}

// served is a machine with a node cache, the cluster DNS and an upstream server.
type served struct {
	*machine
	*internet
	program string
	addrs   []netip.Addr // of the cluster DNS
	cluster []string     // process IDs
	logs    string       // directory of the node cache's log, with a slash at the end; "": that of the machine
	cache   string
	caches  int // started
}

// newServed starts s, which has its programs and logs only. two: the cluster DNS has two addresses.
func newServed(t *testing.T, s served, two bool) *served {
	t.Helper()
	s.machine, s.addrs = newBareMachine(t, ""), []netip.Addr{clusterDNS}
	if s.logs != "" {
		s.run(t, fmt.Sprintf(`mkdir "$DIR/%s" && mount -t tmpfs -o size=64k tmpfs "$DIR/%[1]s" && echo mounted`, s.logs))
	}
	if two {
		s.addrs = append(s.addrs, secondDNS)
	}
	for _, a := range append([]netip.Addr{nodeCache, outside}, s.addrs...) {
		s.run(t, fmt.Sprintf("ip addr add %s/32 dev lo && echo added", a))
	}
	s.internet = s.startOutside(t, loadRecords)
	s.write(t, "objects/objects.yaml", loadObjects())
	s.startCluster(t)
	s.startNodeCache(t)
	return &s
}

func (s *served) startCluster(t *testing.T) {
	t.Helper()
	s.cluster = nil
	s.write(t, "dns.yaml", "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\nhostSuffixes: [node.example, corp.example]\n")
	for _, addr := range s.addrs {
		s.cluster = append(s.cluster,
			s.spawn(t, fmt.Sprintf("%s dns --config %s --manifests %s --listen %s --upstream %s", s.program,
				filepath.Join(s.dir, "dns.yaml"), filepath.Join(s.dir, "objects"), at(addr), outside), "dns.log"))
	}
}

// startNodeCache starts another node cache and returns when it serves and has a fallback.
func (s *served) startNodeCache(t *testing.T) {
	t.Helper()
	s.caches++
	log := fmt.Sprintf("%scache%d.log", s.logs, s.caches)
	config := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\n"+
		"listen: ['%s']\nfallbackService: dns.kube-system\nclusterDNS:\n", at(nodeCache))
	for _, addr := range s.addrs {
		config += fmt.Sprintf("- '%s'\n", addr)
	}
	s.write(t, "nodecache.yaml", config)
	command := fmt.Sprintf("%s nodecache --config %s", s.program, filepath.Join(s.dir, "nodecache.yaml"))
	s.cache = s.spawn(t, command, log)
	await(t, func() error {
		if s.run(t, fmt.Sprintf(`cat "$DIR/%s" 2>/dev/null | { grep -c 'msg="fallback to the cluster DNS"' || true; }`, log)) == "0" {
			return errors.New("the node cache does not serve")
		}
		return nil
	})
}

func restartNodeCache(t *testing.T, s *served, _ load) {
	s.end(t, s.cache, "KILL")
	<-time.After(restartTime)
	s.startNodeCache(t)
}

// hangReaders makes each recvmmsg(2) of the node cache last for a while. The process lives and its other
// threads run, as far as they do not wait for a reader.
func hangReaders(t *testing.T, s *served, _ load) {
	tracer := s.spawn(t, fmt.Sprintf("strace --quiet=all --follow-forks --attach=%s --trace=recvmmsg --output=/dev/null "+
		"--inject=recvmmsg:delay_enter=%ds", s.cache, 2*silenceTime/time.Second), "strace.log")
	<-time.After(silenceTime)
	s.end(t, tracer, "TERM")
}

// exhaustMemory makes the kernel kill the node cache at a memory limit.
func exhaustMemory(t *testing.T, s *served, _ load) {
	if err := nodetools.MakeCgroup(s.cgroup); err != nil {
		t.Fatal(err)
	}
	s.run(t, fmt.Sprintf("{ cd /sys/fs/cgroup%s 2>/dev/null && limit=memory.max || "+
		"{ cd /sys/fs/cgroup/memory%[1]s && limit=memory.limit_in_bytes; }; } && "+
		"echo %s >cgroup.procs && echo 1M >$limit; wait %[2]s; [ $? = 137 ] && cd / && echo killed", s.cgroup, s.cache))
	<-time.After(restartTime)
	s.startNodeCache(t)
}

// fillDisk fills the file system of the log, and makes the node cache log something.
func fillDisk(t *testing.T, s *served, _ load) {
	s.run(t, fmt.Sprintf(`! dd if=/dev/zero of="$DIR/%srest" bs=1k 2>/dev/null && kill -HUP %s && echo full`, s.logs, s.cache))
}

// restartWithBadFile kills the node cache and starts it with a file that it rejects, as a kubelet does
// again and again, until someone corrects the file.
func restartWithBadFile(t *testing.T, s *served, _ load) {
	s.end(t, s.cache, "KILL")
	s.write(t, "bad.yaml", "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\nlisten: 5\n")
	for range 6 {
		s.run(t, fmt.Sprintf(`! %s nodecache --config "$DIR/bad.yaml" 2>>"$DIR/bad.log" && echo rejected`, s.program))
		<-time.After(restartTime / 6)
	}
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
