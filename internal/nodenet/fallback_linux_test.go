// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

var cacheAddr = netip.MustParseAddrPort("169.254.20.10:53")

// node is the network of a node with a node cache and three pods: a client and two servers of the
// cluster DNS.
type node struct {
	*testing.T
	client *netns.Pod
	hangs  atomic.Bool // the node cache receives, and does not reply
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t}
	netns.Run(t, "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1")
	n.client = netns.NewPod(t, 1)
	for i := 2; i <= 3; i++ {
		pod := netns.NewPod(t, i)
		pod.Do(func() { serve(t, netip.MustParseAddrPort(pod.Addr+":53"), fmt.Sprint("server ", i), nil) })
	}
	if _, failed := (Interface{Name: "lo", Addrs: []netip.Addr{cacheAddr.Addr()}}).Ensure(); len(failed) > 0 {
		t.Fatal(failed)
	}
	serve(t, cacheAddr, "cache", &n.hangs)
	return n
}

// serve replies to each packet, and to each connection, with a text, unless hangs is set.
func serve(t *testing.T, addr netip.AddrPort, text string, hangs *atomic.Bool) {
	t.Helper()
	packets := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr)))(t)
	connections := must.Get(net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr)))(t)
	t.Cleanup(func() { packets.Close(); connections.Close() })
	isAlive := func() bool { return hangs == nil || !hangs.Load() }
	go func() {
		for {
			_, from, err := packets.ReadFromUDPAddrPort(make([]byte, 100))
			if err != nil {
				return
			}
			if isAlive() {
				_, _ = packets.WriteToUDPAddrPort([]byte(text), from)
			}
		}
	}()
	go func() {
		for {
			c, err := connections.Accept()
			if err != nil {
				return
			}
			if isAlive() {
				_, _ = c.Write([]byte(text))
				c.Close()
			}
		}
	}()
}

// ask returns who replies to a query of the client, or of the host, over "udp" or "tcp".
func (n *node) ask(network string, host bool) (reply string) {
	n.Helper()
	ask := func() {
		c, err := net.DialTimeout(network, cacheAddr.String(), 100*time.Millisecond)
		if err != nil {
			reply = "no reply"
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write([]byte("query"))
		text := make([]byte, 100)
		size, err := c.Read(text)
		if err != nil {
			reply = "no reply"
			return
		}
		reply, _, _ = strings.Cut(string(text[:size]), " ")
	}
	if host {
		ask()
	} else {
		n.client.Do(ask)
	}
	return reply
}

// expect waits until all queries have this reply.
func (n *node) expect(want string) {
	n.Helper()
	var got string
	for range 200 {
		got = ""
		for _, network := range []string{"udp", "tcp"} {
			for _, host := range []bool{false, true} {
				if reply := n.ask(network, host); reply != want {
					got += fmt.Sprintf("%s, of the host %t: %s\n", network, host, reply)
				}
			}
		}
		if got == "" {
			return
		}
	}
	n.Errorf("want a reply of %s:\n%s\n%s", want, got, ruleset(n.T))
}

// TestSetFallback: queries reach the cluster DNS unless the lease lasts, and the translation remains
// without the process that has made it.
func TestSetFallback(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	n.expect("cache")
	servers := []netip.AddrPort{netip.MustParseAddrPort("10.244.2.2:53"), netip.MustParseAddrPort("10.244.3.2:53")}
	must.Succeed(t, SetFallback([]netip.AddrPort{cacheAddr}, servers))
	n.expect("server")
	rules := must.Get(Install([]Address{{cacheAddr, true}}))(t)
	n.expect("server") // no reply, no lease
	renew(t)
	for range 3 {
		n.expect("cache") // each reply renews the lease
		time.Sleep(LeaseTime / 2)
	}
	n.hangs.Store(true)
	n.expect("server")
	n.hangs.Store(false)
	n.expect("server")
	renew(t)
	n.expect("cache")
	rules.Revoke()
	n.expect("server")
	n.expect("server") // the replies to the cache's last queries do not renew the lease
	renew(t)
	n.expect("cache")
	rules.Remove() // as the death of the process does
	n.expect("server")
	must.Succeed(t, SetFallback(nil, nil))
	n.expect("cache")
	if got := ruleset(t); got != "" {
		t.Errorf("rules are left:\n%s", got)
	}
}

// renew sends a probe to the node cache that grants the lease.
func renew(t *testing.T) {
	t.Helper()
	c := must.Get(ProbeDialer(true).DialContext(t.Context(), "udp", cacheAddr.String()))(t)
	defer c.Close()
	_, _ = c.Write([]byte("probe"))
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Read(make([]byte, 100)); err != nil {
		t.Error(err)
	}
}

// TestSetFallback_Spread: each server gets its share of the queries.
func TestSetFallback_Spread(t *testing.T) {
	if !enter(t) {
		return
	}
	servers := []netip.AddrPort{
		netip.MustParseAddrPort("10.244.2.2:53"), netip.MustParseAddrPort("10.244.3.2:53"), netip.MustParseAddrPort("[fd00::2]:53"),
	}
	must.Succeed(t, SetFallback([]netip.AddrPort{cacheAddr, netip.MustParseAddrPort("[fd00:20::10]:53")}, servers))
	got := ruleset(t)
	for _, want := range []string{
		"ip daddr 169.254.20.10 udp dport 53 numgen random mod 2 0 dnat ip to 10.244.2.2:53",
		"ip daddr 169.254.20.10 udp dport 53 numgen random mod 1 0 dnat ip to 10.244.3.2:53",
		"ip6 daddr fd00:20::10 tcp dport 53 tcp flags syn / syn,ack numgen random mod 1 0 dnat ip6 to [fd00::2]:53",
		"ip saddr 169.254.20.10 ip daddr 10.244.3.2 tcp dport 53 masquerade",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no rule %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
