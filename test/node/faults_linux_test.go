// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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

// The duration of a fault: a restart, a server that does not reply, and a node cache that is stopped. The
// second is longer than a failing lookup takes, except for glibc's with a search list.
const (
	restartTime = 3 * time.Second
	silenceTime = 12 * time.Second
	stopTime    = time.Minute
)

// A fault happens to a node cache or its servers under load.
type fault struct {
	name    string
	two     bool   // the cluster DNS has two addresses
	log     string // directory of the node cache's log, with a slash at the end; "": that of the machine
	happens func(t *testing.T, s *served)
}

// No lookup may fail during these faults.
var nodeCacheFaults = []fault{
	{name: "nothing", happens: func(*testing.T, *served) { <-time.After(restartTime) }},
	{name: "the node cache is killed", happens: restartNodeCache},
	{name: "the node cache hangs", happens: func(t *testing.T, s *served) { s.hang(t, s.cache, stopTime) }},
	{name: "the readers of the node cache hang", happens: hangReaders},
	{name: "the node cache exceeds its memory limit", happens: exhaustMemory},
	{name: "the disk of the node cache is full", log: "small/", happens: fillDisk},
	{name: "the node cache starts with a bad file again and again", happens: restartWithBadFile},
	{name: "the rules are removed, and then the node cache is killed", happens: removeRules},
	{name: "the node cache is upgraded ten times", happens: upgradeNodeCache},
	{name: "the node cache is uninstalled", happens: func(t *testing.T, s *served) {
		s.end(t, s.cache, "TERM")
		<-time.After(restartTime)
	}},
}

var serverFaults = []fault{
	{name: "the cluster DNS is killed", happens: func(t *testing.T, s *served) {
		s.end(t, s.cluster[0], "KILL")
		<-time.After(restartTime)
		s.startCluster(t)
	}},
	{name: "the cluster DNS hangs", happens: hangCluster},
	{name: "one of two cluster DNS servers hangs", two: true, happens: hangCluster},
	{name: "the servers of a host suffix do not reply", happens: func(_ *testing.T, s *served) { s.silence(silenceTime, "node.example.") }},
	{name: "the node's servers do not reply", happens: func(_ *testing.T, s *served) { s.silence(silenceTime, ".") }},
}

var nodeLocal = flag.Bool("nodelocal", false, "TestFaults: run the faults of a node cache with NodeLocal DNSCache, too, and log what fails")

// TestFaults looks up names during each fault. A name that exists is never denied, a failing lookup
// returns EAI_AGAIN, and lookups succeed again after the fault. While the node cache itself fails, 2,000
// lookups are sent each second, and none fails. Durations are logged, not checked; docs/dns.md has the
// figures.
func TestFaults(t *testing.T) {
	nodetools.Install(t)
	debian.Install(t, "nft", "nftables")
	program, ask := process.Build(t), compileAsk(t)
	t.Run("node cache", func(t *testing.T) {
		t.Parallel()
		for _, f := range nodeCacheFaults {
			t.Run(f.name, func(t *testing.T) {
				s := newServed(t, served{program: program, logs: f.log}, f.two)
				if c := s.lookUpDuring(t, ask, f, many); len(c.again) > 0 {
					t.Errorf("%d lookups failed, such as %q", len(c.again), c.again[:min(len(c.again), 9)])
				}
			})
		}
	})
	for _, f := range serverFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			newServed(t, served{program: program}, f.two).lookUpDuring(t, ask, f, few)
		})
	}
	t.Run("pinned names", func(t *testing.T) {
		t.Parallel()
		testPinnedNames(t, newServed(t, served{program: program}, false), ask["glibc"])
	})
	if *nodeLocal {
		coreDNS := apiserver.CoreDNS(t)
		for _, f := range nodeCacheFaults {
			t.Run("NodeLocal DNSCache: "+f.name, func(t *testing.T) {
				newServed(t, served{program: program, coreDNS: coreDNS, logs: f.log}, f.two).lookUpDuring(t, ask, f, many)
			})
		}
	}
}

// testPinnedNames kills all servers, and then the node cache. A pinned name still resolves when that starts again.
func testPinnedNames(t *testing.T, s *served, ask string) {
	const line = "198.51.100.2 pinned.example.com.\n"
	await(t, func() error {
		if text, err := os.ReadFile(filepath.Join(s.dir, "pinned")); err != nil || string(text) != line {
			return fmt.Errorf("the file of pinned names has %q: %w", text, err)
		}
		return nil
	})
	all := "."
	s.silent.Store(&all)
	s.end(t, s.cluster[0], "KILL")
	s.cluster = nil
	s.end(t, s.cache, "KILL")
	s.startNodeCache(t)
	pod := loadPod{library: "glibc", policy: "pinned", resolvConf: "nameserver " + nodeCache.String() + "\n"}
	s.addPod(t, pod, 1)
	for name, want := range map[string]string{"pinned.example.com": "198.51.100.2", "www.example.com": "error EAI_AGAIN"} {
		out := s.run(t, fmt.Sprintf("ip netns exec %s %s each 0 %s", pod, ask, name))
		if _, result, _ := strings.Cut(strings.TrimPrefix(out, name+" "), " "); found(result) != want {
			t.Errorf("%s: got %s, want %s", name, result, want)
		}
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

// lookUpDuring looks up names before, during and after a fault, and returns the results of all programs. A
// wrong reply is an error.
func (s *served) lookUpDuring(t *testing.T, ask map[string]string, f fault, size load) (all tally) {
	l := s.startLoad(t, ask, loadPods(t, s.machine, s.coreDNS == ""), size)
	l.reach(t, size.programs)
	f.happens(t, s)
	<-time.After(restartTime)
	took := l.end(t)
	for _, p := range l.pods {
		c := p.tally(t, l.lines(p))
		t.Logf("%-14s %6d found, %5d absent, %5d try again, %3d wrong, %3d over %v; p50 %v, p99 %v, worst %v", p,
			c.found, c.absent, len(c.again), len(c.wrong), c.slow, slowTime, c.part(500), c.part(990), c.part(1000))
		if len(c.wrong) > 0 && s.coreDNS == "" {
			t.Errorf("%s: %d wrong replies, such as\n%s", p, len(c.wrong), strings.Join(c.wrong[:min(len(c.wrong), 9)], "\n"))
		}
		all.again = append(all.again, c.again...)
		all.wrong = append(all.wrong, c.wrong...)
		all.slow += c.slow
		all.delays = append(all.delays, c.delays...)
		if f.name != "the node cache is uninstalled" || s.coreDNS == "" {
			l.recovers(t, p)
		}
	}
	t.Logf("%d lookups in %.0f s, %.0f a second: %d failed, %d wrong, %d over %v", len(all.delays), took.Seconds(),
		float64(len(all.delays))/took.Seconds(), len(all.again), len(all.wrong), all.slow, slowTime)
	return all
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
	caches  int    // started
	coreDNS string // program of a node cache with the configuration of NodeLocal DNSCache; "": ours
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
	command, serving := s.program+` nodecache --config "$DIR/nodecache.yaml"`, `msg="fallback to the cluster DNS"`
	if s.coreDNS == "" {
		config := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\n"+
			"listen: ['%s']\nfallbackService: dns.kube-system\npinnedNames: {names: [pinned.example.com], file: %s}\nclusterDNS:\n",
			at(nodeCache), filepath.Join(s.dir, "pinned"))
		for _, addr := range s.addrs {
			config += fmt.Sprintf("- '%s'\n", addr)
		}
		s.write(t, "nodecache.yaml", config)
	} else {
		corefile := apiserver.Corefile(t, "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml")
		s.write(t, "Corefile", strings.NewReplacer("__PILLAR__DNS__DOMAIN__", "cluster.local", "__PILLAR__DNS__SERVER__", "",
			"__PILLAR__LOCAL__DNS__", nodeCache.String(), "__PILLAR__CLUSTER__DNS__", clusterDNS.String(),
			"__PILLAR__UPSTREAM__SERVERS__", outside.String()).Replace(corefile))
		s.write(t, "notrack.nft", strings.ReplaceAll(nodeLocalRules, "ADDR", nodeCache.String()))
		s.run(t, `nft -f "$DIR/notrack.nft" && echo written`)
		command, serving = s.coreDNS+` -conf "$DIR/Corefile"`, "CoreDNS-"
	}
	if len(s.cluster) == 0 {
		serving = "msg=serving"
	}
	s.cache = s.spawn(t, command, log)
	await(t, func() error {
		if s.run(t, fmt.Sprintf(`cat "$DIR/%s" 2>/dev/null | { grep -c '%s' || true; }`, log, serving)) == "0" {
			return errors.New("the node cache does not serve")
		}
		return nil
	})
}

// nodeLocalRules are the rules that NodeLocal DNSCache writes with iptables.
const nodeLocalRules = `table ip nodelocal
delete table ip nodelocal
table ip nodelocal {
	chain prerouting {
		type filter hook prerouting priority raw
		ip daddr ADDR meta l4proto { tcp, udp } th dport 53 notrack
	}
	chain output {
		type filter hook output priority raw
		ip saddr ADDR meta l4proto { tcp, udp } th sport 53 notrack
	}
}
`

func restartNodeCache(t *testing.T, s *served) {
	s.end(t, s.cache, "KILL")
	<-time.After(restartTime)
	s.startNodeCache(t)
}

// hangReaders makes each system call that receives packets of the node cache last for a while. The process lives and its other
// threads run, as far as they do not wait for a reader.
func hangReaders(t *testing.T, s *served) {
	read := "recvmmsg"
	if s.coreDNS != "" {
		read = "recvmsg"
	}
	for hang := false; !hang; { // strace may miss a thread that starts while it attaches
		tracer := s.spawn(t, fmt.Sprintf("strace --quiet=all --follow-forks --attach=%s --trace=%s --output=/dev/null "+
			"--inject=%[2]s:delay_enter=%[3]ds", s.cache, read, 2*silenceTime/time.Second), "strace.log")
		<-time.After(time.Second)
		if hang = s.run(t, fmt.Sprintf("cat /proc/%s/task/*/status | { grep -c '^State:.t' || true; }", s.cache)) != "0"; hang {
			<-time.After(silenceTime)
		}
		s.end(t, tracer, "TERM")
	}
}

// exhaustMemory makes the kernel kill the node cache at a memory limit.
func exhaustMemory(t *testing.T, s *served) {
	must.Succeed(t, nodetools.MakeCgroup(s.cgroup))
	s.run(t, fmt.Sprintf("{ cd /sys/fs/cgroup%s 2>/dev/null && limit=memory.max || "+
		"{ cd /sys/fs/cgroup/memory%[1]s && limit=memory.limit_in_bytes; }; } && "+
		"echo %s >cgroup.procs && echo 1M >$limit; wait %[2]s; [ $? = 137 ] && cd / && echo killed", s.cgroup, s.cache))
	<-time.After(restartTime)
	s.startNodeCache(t)
}

// fillDisk fills the file system of the log, and makes the node cache log something.
func fillDisk(t *testing.T, s *served) {
	s.run(t, fmt.Sprintf(`! dd if=/dev/zero of="$DIR/%srest" bs=1k 2>/dev/null && kill -HUP %s && echo full`, s.logs, s.cache))
}

// restartWithBadFile kills the node cache and starts it with a file that it rejects, as a kubelet does
// again and again, until someone corrects the file.
func restartWithBadFile(t *testing.T, s *served) {
	s.end(t, s.cache, "KILL")
	s.write(t, "bad.yaml", "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\nlisten: 5\n")
	for range 6 {
		s.run(t, fmt.Sprintf(`! %s nodecache --config "$DIR/bad.yaml" 2>>"$DIR/bad.log" && echo rejected`, s.program))
		<-time.After(restartTime / 6)
	}
	s.startNodeCache(t)
}

// removeRules removes all rules, as a restart of the service nftables does, waits until the node cache has
// written the fallback again, and kills it. The kernel does not let others remove the rules with the lease.
func removeRules(t *testing.T, s *served) {
	s.run(t, "nft flush ruleset && echo flushed")
	if s.coreDNS == "" {
		await(t, func() error {
			if tables := s.run(t, "nft list tables | tr '\\n' ' ' && echo"); !strings.Contains(tables, "dnsconfigurer-fallback") {
				return fmt.Errorf("no fallback in %q", tables)
			}
			return nil
		})
	}
	restartNodeCache(t, s)
}

// upgradeNodeCache replaces the node cache as the DaemonSet does: ours has maxSurge 1, that of NodeLocal
// DNSCache has maxUnavailable.
func upgradeNodeCache(t *testing.T, s *served) {
	for range 10 {
		s.replaceNodeCache(t, s.coreDNS == "")
	}
}

func hangCluster(t *testing.T, s *served) { s.hang(t, s.cluster[0], silenceTime) }

// hang stops a server for a while: it receives packets and does not reply.
func (s *served) hang(t *testing.T, pid string, d time.Duration) {
	s.run(t, "kill -STOP "+pid+" && echo stopped")
	<-time.After(d)
	s.run(t, "kill -CONT "+pid+" && echo goes on")
}

// silence drops the queries for a domain for a while.
func (i *internet) silence(d time.Duration, domain string) {
	i.silent.Store(&domain)
	<-time.After(d)
	i.silent.Store(nil)
}
