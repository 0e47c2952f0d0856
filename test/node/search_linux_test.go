// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// The servers of the machine.
var (
	clusterDNS = facts().ClusterDNS[0]
	nodeCache  = facts().Autopath.NodeCache
	outside    = netip.MustParseAddr("192.0.2.53") // as in the machine's resolv.conf
)

// clusterObjects are the objects of the cluster. The namespace intranet has the name of a
// host of corp.example.
const clusterObjects = `apiVersion: v1
kind: Service
metadata: {namespace: ` + namespace + `, name: web}
spec: {clusterIPs: [10.96.1.1, "fd00:96::1"]}
---
apiVersion: v1
kind: Service
metadata: {namespace: payments, name: db}
spec: {clusterIPs: [10.96.1.2]}
---
apiVersion: v1
kind: Namespace
metadata: {name: intranet}
`

// outsideRecords are the names outside the cluster.
const outsideRecords = `
www.example.com.       300 IN A 198.51.100.1
www.example.com.       300 IN AAAA 2001:db8::1
intranet.corp.example. 300 IN A 198.51.100.2
hosted.node.example.   300 IN A 198.51.100.3
`

// lookups are the lookups of the pods, with the number of queries for both families: with
// the search list of ClusterFirst, and with the single search domain of autopath.
var lookups = []struct {
	title, name, want string
	listed, searched  int
}{
	{"a Service of the pod's namespace", "web", "10.96.1.1 fd00:96::1", 2, 2},
	{"a Service of another", "db.payments", "10.96.1.2", 4, 2},
	{"a name of the internet", "www.example.com", "198.51.100.1 2001:db8::1", 12, 2},
	{"a host of the first corporate domain", "hosted", "198.51.100.3", 8, 2},
	{"a host that is called as a namespace is", "intranet", "198.51.100.2", 10, 2},
	{"the same with its domain", "intranet.corp.example", "198.51.100.2", 12, 2},
	{"a name that does not exist", "nothing", "error EAI_NONAME", 12, 4},
	{"a full name", "www.example.com.", "198.51.100.1 2001:db8::1", 2, 2},
}

// testSearchLists looks up names in pods, from the C library to servers outside the
// cluster, and counts the packets. The result of glibc with a search list is the expected
// one.
func (m *machine) testSearchLists(t *testing.T) {
	program := process.Build(t, t.TempDir())
	m.addAddresses(t, clusterDNS, nodeCache, outside)
	m.startOutside(t, outsideRecords)
	m.write(t, "objects/objects.yaml", clusterObjects)
	server := []string{"dns", "--config", filepath.Join(m.dir, "dns.yaml"), "--manifests", filepath.Join(m.dir, "objects"),
		"--upstream", outside.String()}
	configure := func(fields string) {
		m.write(t, "dns.yaml", "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"+
			"hostSuffixes: [node.example, corp.example]\n"+fields)
	}
	t.Run("the cluster DNS alone", func(t *testing.T) {
		configure("")
		m.serveNames(t, program, append(server, "--listen", at(clusterDNS), "--listen", at(nodeCache)), clusterDNS, nodeCache)
		m.lookUp(t, false)
	})
	t.Run("a node cache before it", func(t *testing.T) {
		// A query to a local address comes from this address.
		network := netip.PrefixFrom(clusterDNS, clusterDNS.BitLen()).String()
		configure("autopathNetworks: [" + network + "]\n")
		m.serveNames(t, program, append(server, "--listen", at(clusterDNS)), clusterDNS)
		m.serveNames(t, program, []string{"nodecache", "--listen", at(nodeCache), "--cluster-dns", clusterDNS.String()}, nodeCache)
		m.lookUp(t, true)
	})
}

// addAddresses adds addresses to the machine's loopback interface.
func (m *machine) addAddresses(t *testing.T, addrs ...netip.Addr) {
	t.Helper()
	for _, a := range addrs {
		m.run(t, fmt.Sprintf("ip addr add %s/32 dev lo && echo added", a))
	}
}

// at returns the address of a DNS server.
func at(addr netip.Addr) string { return netip.AddrPortFrom(addr, 53).String() }

// serveNames runs a command until t ends, and waits until it replies at addrs.
func (m *machine) serveNames(t *testing.T, program string, args []string, addrs ...netip.Addr) {
	t.Helper()
	pid := m.startNames(t, program, args, addrs...)
	t.Cleanup(func() { m.end(t, pid, "TERM") })
}

// startNames runs a command, waits until it replies at addrs, and returns its process ID.
func (m *machine) startNames(t *testing.T, program string, args []string, addrs ...netip.Addr) string {
	t.Helper()
	pid := m.spawn(t, program+" "+strings.Join(args, " "), "dns.log")
	for _, addr := range addrs {
		await(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c, err := m.dial(ctx, "udp", at(addr))
			if err != nil {
				return err
			}
			defer c.Close()
			q := new(dns.Msg).SetQuestion("web."+namespace+".svc.cluster.local.", dns.TypeA)
			reply, _, err := new(dns.Client).ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: c})
			if err == nil && len(reply.Answer) == 0 {
				err = fmt.Errorf("%s", dns.RcodeToString[reply.Rcode])
			}
			return err
		})
	}
	return pid
}

// lookUp runs a pod of each policy with a container of each library, and all lookups in
// them. cached means that there is a node cache.
func (m *machine) lookUp(t *testing.T, cached bool) {
	for _, pod := range []*corev1.Pod{newPod("list", corev1.PodSpec{}), autopathPod("autopath")} {
		hook := m.hook(t, pod)
		s := m.startShim(t, hook)
		ctx, cancel := within(t.Context())
		defer cancel()
		config := s.sandboxOf(hook.Engine, m.host(), pod)
		sandbox, err := s.start(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range []string{nodetools.GlibcImage, nodetools.MuslImage} {
			container, err := s.startContainer(ctx, sandbox, config, image)
			if err != nil {
				t.Fatal(err)
			}
			m.lookUpIn(ctx, t, s, container, pod.Name, image, cached)
		}
		if err := s.remove(ctx, sandbox); err != nil {
			t.Error(err)
		}
	}
}

// lookUpIn makes all lookups in a container and compares results and queries. A node
// cache without data sends one query a family to the cluster DNS for a name with a search
// list.
func (m *machine) lookUpIn(ctx context.Context, t *testing.T, s shim, container, pod, image string, cached bool) {
	t.Helper()
	queries, behind := m.capture(t, "pods0"), m.capture(t, "lo")
	for _, l := range lookups {
		want, count := l.want, l.searched
		if pod == "list" {
			count = l.listed
		}
		if pod == "list" && image == nodetools.MuslImage && l.name == "intranet" {
			// The search of musl ends at the namespace, a name without addresses.
			want, count = "error EAI_NONAME", 4
		}
		out, err := s.exec(ctx, container, "/bin/ask", "0", l.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := found(out); got != want {
			t.Errorf("%s, %s, %s: %s, want %s", pod, image, l.title, got, want)
		}
		if got := queries.take(t); len(got) != count {
			t.Errorf("%s, %s, %s: %d queries, want %d:\n%s", pod, image, l.title, len(got), count, strings.Join(got, "\n"))
		}
		passed := slices.DeleteFunc(behind.take(t), func(q string) bool { // it checks the cluster DNS by SOA queries
			return !strings.HasPrefix(q, clusterDNS.String()+" ") || strings.HasSuffix(q, " SOA")
		})
		slices.Sort(passed)
		passed = slices.Compact(passed) // a query without a reply for 200 ms is sent again
		if first := cached && pod == "autopath" && image == nodetools.GlibcImage &&
			!strings.HasSuffix(l.name, "."); first && len(passed) != 2 {
			t.Errorf("%s: the node cache sent %q", l.title, passed)
		}
	}
}

// found returns the result of the program ask: sorted addresses, or the name of an error.
func found(out string) string {
	if failure, _, ok := strings.Cut(out, ":"); ok && strings.HasPrefix(failure, "error ") {
		return failure
	}
	addrs := strings.Fields(out)
	slices.Sort(addrs)
	return strings.Join(addrs, " ")
}
