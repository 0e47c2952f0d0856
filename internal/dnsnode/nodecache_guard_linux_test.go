// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

const linkLocalFields = "listen: ['169.254.20.10:53', '[fd00:20::10]:53']\ninterface: lo\n"

// answers reports whether both addresses of linkLocalFields answer.
func answers(t *testing.T) error {
	for _, addr := range []string{"169.254.20.10:53", "[fd00:20::10]:53"} {
		for _, network := range []string{"udp", "tcp"} {
			if err := probe(t.Context(), &net.Dialer{}, network, netip.MustParseAddrPort(addr)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestGuard_Restores: what is removed from the node comes back, and the sockets that are open
// answer again.
func TestGuard_Restores(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok\naddress 169.254.20.10:53: ok\naddress [fd00:20::10]:53: ok\n")
	for _, tt := range []struct{ command, metric string }{
		{"ip address del 169.254.20.10/32 dev lo", `dnsconfigurer_nodecache_restored_total{kind="address"} 1`},
		{"ip address del fd00:20::10/128 dev lo", `dnsconfigurer_nodecache_restored_total{kind="address"} 2`},
		{"ip address flush dev lo scope global", `dnsconfigurer_nodecache_restored_total{kind="address"} 4`},
		{"ip link set lo down", `dnsconfigurer_nodecache_restored_total{kind="state"} 1`},
	} {
		netns.Run(t, tt.command)
		kind, _, _ := strings.Cut(tt.metric, " ")
		becomes(t, i, func() string { return i.metric(kind) }, tt.metric)
		poll.UntilNil(t, "answers", func() error { return answers(t) })
		becomes(t, i, i.readyz, "200 ok")
	}
	for _, want := range []string{`level=WARN msg="interface of the node cache restored" restored="address 169.254.20.10"`,
		`restored="state lo"`} {
		if !strings.Contains(i.log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, i.log.String())
		}
	}
}

// TestGuard_CannotRestore: while an address is missing, /readyz names it.
func TestGuard_CannotRestore(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	disableIPv6(t, "1")
	becomes(t, i, i.readyz, "503 assigning fd00:20::10 to interface lo: the kernel has disabled IPv6")
	becomes(t, i, func() string { return i.metric(`dnsconfigurer_nodecache_reachable{address="[fd00:20::10]:53"}`) }, " 0")
	if got := i.metric(`dnsconfigurer_nodecache_reachable{address="169.254.20.10:53"}`); !strings.HasSuffix(got, " 1") {
		t.Error(got)
	}
	disableIPv6(t, "0")
	becomes(t, i, i.readyz, "200 ok")
	// If the address is missing for long, its probe fails, too, which is another problem.
	const problem = `msg="queries do not reach the node cache" address=`
	if log := i.log.String(); strings.Count(log, problem+`[fd00:20::10]:53 error="assigning `) != 1 ||
		strings.Contains(log, problem+"169.") || strings.Count(log, `msg="queries reach the node cache again"`) != 1 {
		t.Error(log)
	}
}

func disableIPv6(t *testing.T, value string) {
	t.Helper()
	for _, name := range []string{"all", "default", "lo"} {
		must.Succeed(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte(value), 0o600))
	}
}

// TestAddresses_IPv6Disabled: an IPv6 address is omitted while another address remains.
func TestAddresses_IPv6Disabled(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	disableIPv6(t, "1")
	i := startInstance(t, linkLocalFields)
	const reason = "the kernel has disabled IPv6: remove the address, or set the sysctl net.ipv6.conf.lo.disable_ipv6=0"
	becomes(t, i, i.readyz,
		"200 ok\naddress [fd00:20::10]:53: omitted: assigning fd00:20::10 to interface lo: "+reason+"\naddress 169.254.20.10:53: ok\n")
	if log := i.log.String(); !strings.Contains(log, `level=WARN msg="address omitted" address=[fd00:20::10]:53`) {
		t.Error(log)
	}
	alone := startInstance(t, "listen: ['[fd00:20::10]:53', '[fd00:20::10]:1053']\ninterface: lo\n")
	if err := alone.wait(t); err == nil || !strings.HasSuffix(err.Error(), reason) {
		t.Errorf("with an IPv6 address alone: %v", err)
	}
}

// TestGuard_OtherServer: a server that shares the port, as CoreDNS and NodeLocal DNSCache do,
// gets the queries if it starts later.
func TestGuard_OtherServer(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				t.Error(err)
			}
		})
	}}
	socket := must.Get(config.ListenPacket(t.Context(), "udp", "169.254.20.10:53"))(t)
	other := dnstest.Serve(socket, nil, dnstest.Reply(func(query *dns.Msg) *dns.Msg {
		return new(dns.Msg).SetRcode(query, dns.RcodeNameError)
	}))
	netns.Run(t, "ip address del 169.254.20.10/32 dev lo") // the address is probed when it is restored
	becomes(t, i, i.readyz, "503 queries to 169.254.20.10:53 do not reach this process over udp: another server answers")
	if got := i.metric(`dnsconfigurer_nodecache_reachable{address="169.254.20.10:53"}`); !strings.HasSuffix(got, " 0") {
		t.Error(got)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	becomes(t, i, i.readyz, "200 ok")
}

// TestGuard_NoRoute: the node has the address, but no local route to it.
func TestGuard_NoRoute(t *testing.T) {
	if !enter(t) {
		return
	}
	newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	netns.Run(t, "ip route del local 169.254.20.10 dev lo table local", "ip address del fd00:20::10/128 dev lo")
	becomes(t, i, i.readyz, "503 queries to 169.254.20.10:53 do not reach this process over udp: no reply in 5s")
	netns.Run(t, "ip route add local 169.254.20.10 dev lo table local")
	becomes(t, i, i.readyz, "200 ok")
}

// TestClusterCheck_SlowReverseNames: reverse names without a reply do not make a node cache
// unready, as long as the cluster DNS answers for the cluster domain.
func TestClusterCheck_SlowReverseNames(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	var clients sync.WaitGroup
	for _, name := range []string{"1.0.0.10.in-addr.arpa.", "2.0.0.10.in-addr.arpa.", "3.0.0.10.in-addr.arpa."} {
		clients.Go(func() {
			client := dns.Client{Timeout: time.Minute}
			reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypePTR), "169.254.20.10:53")
			if err != nil || reply.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: %v, %v, want SERVFAIL", name, reply, err)
			}
		})
	}
	clients.Wait()
	becomes(t, i, i.readyz, "200 ok")
	// Without a reply for the cluster domain it is unready.
	n.cluster.Close()
	becomes(t, i, i.readyz, "503 no cluster DNS server answers: ")
	n.cluster = startClusterDNS(t)
	becomes(t, i, i.readyz, "200 ok")
}

// TestStale_ClusterDNSBack: a stale answer ends as soon as the cluster DNS has answered any
// query, not when its retry time is over.
func TestStale_ClusterDNSBack(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	lookup := func(name string) string {
		client := dns.Client{Timeout: time.Minute}
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), "169.254.20.10:53")
		if err != nil || len(reply.Answer) != 1 {
			return fmt.Sprint(reply, err)
		}
		a, ok := reply.Answer[0].(*dns.A)
		if !ok || a.Hdr.Ttl > 1 {
			return fmt.Sprintf("%v, want a TTL of at most 1", reply.Answer[0])
		}
		return a.A.String()
	}
	// A busy machine may take longer than the node cache waits for a reply.
	resolves := func(name, want string) {
		t.Helper()
		becomes(t, i, func() string { return lookup(name) }, want)
	}
	const db = "db-0.db.shop.svc.cluster.local."
	resolves(db, "10.0.0.1")
	resolves("other.shop.svc.cluster.local.", "10.0.0.1")
	n.cluster.Close()
	time.Sleep(1100 * time.Millisecond) // the TTL
	if got := lookup(db); got != "10.0.0.1" {
		t.Errorf("without the cluster DNS: %s, want the stale address", got)
	}
	var queries atomic.Int64 // for db
	startClusterDNSWith(t, "10.0.0.9", func(name string) {
		if name == db {
			queries.Add(1)
		}
	})
	resolves("new.shop.svc.cluster.local.", "10.0.0.9")
	lookup(db)
	// The query may still be on its way when the stale address is served. Without a query the stale
	// address would be served until a retry time ends.
	poll.Until(t, "a query at the cluster DNS that is back", func() bool { return queries.Load() > 0 })
	resolves(db, "10.0.0.9")
}
