// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

var serviceAddr = netip.MustParseAddrPort("10.96.0.10:53")

const serviceFields = "listen: ['10.96.0.10:53']\ninterface: lo\n"

// translate returns commands that translate the address of the Service to the cluster DNS, in the
// ways in which kube-proxy does.
func translate(proxy string) (commands []string) {
	if proxy == "nftables" {
		commands = []string{"nft add table ip kube-proxy",
			"nft add chain ip kube-proxy PREROUTING { type nat hook prerouting priority dstnat ; }",
			"nft add chain ip kube-proxy OUTPUT { type nat hook output priority -100 ; }"}
	}
	for _, chain := range []string{"PREROUTING", "OUTPUT"} {
		for _, protocol := range []string{"udp", "tcp"} {
			command := proxy + " -t nat -A " + chain + " -d 10.96.0.10 -p " + protocol + " --dport 53 -j DNAT --to 10.244.0.1:1053"
			if proxy == "nftables" {
				command = "nft add rule ip kube-proxy " + chain + " ip daddr 10.96.0.10 " + protocol +
					" dport 53 dnat to 10.244.0.1:1053"
			}
			commands = append(commands, command)
		}
	}
	return commands
}

// node is the network of a node with one pod and a cluster DNS.
type node struct {
	*testing.T
	pod     *netns.Pod
	cluster *dnstest.Server
}

// enter reports whether the test runs in a network namespace of its own, as netns.Enter does.
// It installs the programs of the tests before: from the namespace, no archive is reachable.
func enter(t *testing.T) bool {
	t.Helper()
	debian.Install(t, "iptables-legacy", "iptables")
	debian.Install(t, "nft", "nftables")
	return netns.Enter(t)
}

func newNode(t *testing.T) node {
	t.Helper()
	netns.Run(t, "ip link set lo up")
	pod := netns.NewPod(t, 0) // has the network of clusterAddr
	return node{t, pod, startClusterDNS(t)}
}

// expectReach checks whether queries of the host and of the pod to addr reach the node cache. The lease of an
// address begins after the first probe.
func (n node) expectReach(addr netip.AddrPort, want bool) {
	n.Helper()
	poll.UntilNil(n, fmt.Sprintf("queries to %s reach the node cache: %t", addr, want), func() error {
		for _, network := range []string{"udp", "tcp"} {
			host := probe(n.Context(), &net.Dialer{}, network, addr)
			var pod error
			n.pod.Do(func() { pod = probe(n.Context(), &net.Dialer{}, network, addr) })
			for client, err := range map[string]error{"host": host, "pod": pod} {
				if (err == nil) != want {
					return fmt.Errorf("%s over %s: %w", client, network, err)
				}
			}
		}
		return nil
	})
}

func testProxy(t *testing.T, name string) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	netns.Run(t, translate(name)...)
	without := startInstance(t, serviceFields+"notrack: disabled\n")
	if err := without.wait(t); err == nil ||
		!strings.Contains(err.Error(), "queries to 10.96.0.10:53 do not reach this process over udp: another server answers") {
		t.Errorf("without rules: %v", err)
	}
	i := startInstance(t, serviceFields)
	becomes(t, i, i.readyz, "200 ok\naddress 10.96.0.10:53: ok\n")
	n.expectReach(serviceAddr, true)
	// Other processes cannot remove the rules.
	netns.Run(t, "nft flush ruleset")
	netns.Run(t, translate(name)...)
	n.expectReach(serviceAddr, true)
	// Without the rules, queries reach the cluster DNS again.
	i.stop()
	if err := i.wait(t); err != nil {
		t.Error(err)
	}
	n.expectReach(serviceAddr, false)
}

func TestRules_IptablesLegacy(t *testing.T) { testProxy(t, "iptables-legacy") }
func TestRules_IptablesNft(t *testing.T)    { testProxy(t, "iptables-nft") }
func TestRules_Nftables(t *testing.T)       { testProxy(t, "nftables") }

// TestRules_IPVS: the start fails at an address that kube-proxy in mode ipvs has assigned. Other addresses work.
func TestRules_IPVS(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	netns.Run(t, "ip link add kube-ipvs0 type bridge", "ip address add 10.96.0.10/32 dev kube-ipvs0")
	const want = "10.96.0.10 is an address of kube-ipvs0: kube-proxy in mode ipvs translates it: listen on 169.254.20.10, " +
		"or use mode nftables"
	if err := startInstance(t, serviceFields).wait(t); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	i := startInstance(t, "listen: ['169.254.20.10:53']\ninterface: lo\n")
	becomes(t, i, i.readyz, "200 ok")
}

// TestLease: without the node cache, queries to its address reach the pods of the cluster DNS, which the kernel
// knows by the headless Service.
func TestLease(t *testing.T) {
	if !enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1")
	n := node{T: t, pod: netns.NewPod(t, 0)}
	n.cluster = startClusterDNSWith(t, "10.244.0.1") // the address of each name, so that of the pod
	packets := must.Get(net.ListenPacket("udp", "10.244.0.1:53"))(t)
	streams := must.Get(net.Listen("tcp", "10.244.0.1:53"))(t)
	server := dnstest.Serve(packets, streams, dnstest.Reply(func(query *dns.Msg) *dns.Msg {
		return new(dns.Msg).SetRcode(query, dns.RcodeNameError)
	}))
	t.Cleanup(func() { server.Close() })
	addr := netip.MustParseAddrPort("169.254.20.10:53")
	const fields = "listen: ['169.254.20.10:53']\ninterface: lo\n"

	i := startInstance(t, fields+"fallbackService: dns-pods.kube-system\n")
	becomes(t, i, i.log.String, `msg="fallback to the cluster DNS" addresses=[169.254.20.10:53] servers=[10.244.0.1:53]`)
	becomes(t, i, func() string { return i.metric("dnsconfigurer_nodecache_fallback_servers") }, " 1")
	n.expectReach(addr, true)
	i.stop()
	if err := i.wait(t); err != nil {
		t.Error(err)
	}
	n.expectReach(addr, false)

	// A node cache without a fallback removes that of an earlier configuration.
	without := startInstance(t, fields)
	n.expectReach(addr, true)
	without.stop()
	if err := without.wait(t); err != nil {
		t.Error(err)
	}
	if rules, err := exec.Command("nft", "list", "ruleset").CombinedOutput(); err != nil || len(rules) > 0 {
		t.Errorf("rules are left: %v\n%s", err, rules)
	}
}

// TestRules_HostPort: a pod with hostPort 53 does not get the queries to a link-local address of
// the node cache, as it would without rules.
func TestRules_HostPort(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	netns.Run(t, "nft add table ip hostport",
		"nft add chain ip hostport pre { type nat hook prerouting priority dstnat ; }",
		"nft add chain ip hostport out { type nat hook output priority -100 ; }",
		"nft add rule ip hostport pre fib daddr type local udp dport 53 dnat to 10.244.0.1:1053",
		"nft add rule ip hostport out fib daddr type local udp dport 53 dnat to 10.244.0.1:1053")
	const fields = "listen: ['169.254.20.10:53']\ninterface: lo\n"
	if err := startInstance(t, fields+"notrack: disabled\n").wait(t); !errors.Is(err, errOtherServer) {
		t.Errorf("without rules: %v, want an error", err)
	}
	i := startInstance(t, fields)
	becomes(t, i, i.readyz, "200 ok")
	var pod error
	n.pod.Do(func() { pod = probe(t.Context(), &net.Dialer{}, "udp", netip.MustParseAddrPort("169.254.20.10:53")) })
	if pod != nil {
		t.Errorf("a query of a pod: %v", pod)
	}
}

// TestRules_Overlap: the end of one of two instances leaves the rules of the other.
func TestRules_Overlap(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	netns.Run(t, translate("iptables-nft")...)
	first := startInstance(t, serviceFields)
	becomes(t, first, first.readyz, "200 ok")
	second := startInstance(t, serviceFields+"logFormat: json\n")
	becomes(t, second, second.log.String, "msg=serving")
	poll.UntilNil(t, "a reply", func() error { return probe(t.Context(), &net.Dialer{}, "udp", serviceAddr) })
	first.stop()
	if err := first.wait(t); err != nil {
		t.Error(err)
	}
	becomes(t, second, second.readyz, "200 ok")
	n.expectReach(serviceAddr, true)
}

// TestRules_NoCapability: without CAP_NET_ADMIN the start fails, unless no address may be that
// of a Service.
func TestRules_NoCapability(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	netns.Run(t, "ip address add 10.96.0.10/32 dev lo", "ip address add 169.254.20.10/32 dev lo")
	err := startInstanceWith(t, "listen: ['10.96.0.10:53']\n", dropNetAdmin).wait(t)
	const want = "cannot keep kube-proxy from translating [10.96.0.10:53] (set notrack to disabled if no proxy " +
		"translates them): writing nftables rules: operation not permitted: add CAP_NET_ADMIN"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, fields := range []string{"listen: ['10.96.0.10:53']\nnotrack: disabled\n", "listen: ['169.254.20.10:53']\n"} {
		other := startInstanceWith(t, fields, dropNetAdmin)
		becomes(t, other, other.readyz, "200 ok")
		other.stop()
		err := other.wait(t)
		warned := strings.Contains(other.log.String(), `level=WARN msg="cannot keep kube-proxy from translating addresses, continuing"`)
		if linkLocal := strings.Contains(fields, "169.254"); err != nil || warned != linkLocal {
			t.Errorf("%s: a warning is %t, want %t; %v", fields, warned, linkLocal, err)
		}
	}
}

// dropNetAdmin drops the capability of the goroutine's thread. The thread ends with the
// goroutine, because it is never unlocked.
func dropNetAdmin() error {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	data[0].Permitted &^= 1 << unix.CAP_NET_ADMIN
	return unix.Capset(&header, &data[0])
}
