// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

var addr = netip.MustParseAddr("169.254.20.10")

// enterNamespace moves the test into a network namespace of its own.
func enterNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	must.Succeed(t, syscall.Unshare(syscall.CLONE_NEWNET))
}

// TestEnsure_Loopback assigns addresses to the loopback twice. Afterwards it is up, has each
// address once, and a server can listen on each.
func TestEnsure_Loopback(t *testing.T) {
	enterNamespace(t)
	addrs := []netip.Addr{netip.MustParseAddr("169.254.20.10"), netip.MustParseAddr("fd00:20::10")}
	for range 2 {
		if _, failed := (Interface{Name: "lo", Addrs: addrs}).Ensure(); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil || lo.Flags&net.FlagUp == 0 {
		t.Fatalf("%v, %v", lo, err)
	}
	assigned := must.Get(lo.Addrs())(t)
	for _, addr := range addrs {
		want := netip.PrefixFrom(addr, addr.BitLen()).String()
		if n := len(slices.DeleteFunc(slices.Clone(assigned), func(a net.Addr) bool { return a.String() != want })); n != 1 {
			t.Errorf("%s is assigned %d times: %v", want, n, assigned)
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 53).String())
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		l.Close()
	}
}

func TestEnsure_OtherType(t *testing.T) {
	enterNamespace(t)
	must.Succeed(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}))
	_, failed := Interface{Name: "eth0", Addrs: []netip.Addr{addr}}.Ensure()
	if err := failed[addr]; err == nil || !strings.Contains(err.Error(), "interface eth0 is of type veth, want dummy") {
		t.Error(err)
	}
}

// TestEnsure_NewInterface creates an interface if the kernel has the dummy driver. If it does
// not, the error must say so.
func TestEnsure_NewInterface(t *testing.T) {
	enterNamespace(t)
	_, failed := Interface{Name: "dnsconfigurer0", Addrs: []netip.Addr{addr}}.Ensure()
	err := failed[addr]
	_, missing := net.InterfaceByName("dnsconfigurer0")
	if (err == nil) != (missing == nil) {
		t.Errorf("Ensure: %v, the interface: %v", err, missing)
	}
	if err != nil && (!errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "creating dummy interface dnsconfigurer0")) {
		t.Error(err)
	}
}

// TestInterface_Restored: what is removed is reported, comes back with the next Ensure, and the
// socket that is open answers again. Watch reports each change.
func TestInterface_Restored(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	i := Interface{Name: "dnsconfigurer0", Addrs: []netip.Addr{addr}, kind: "bridge"}
	if restored, failed := i.Ensure(); len(failed) > 0 ||
		fmt.Sprint(restored) != "[interface dnsconfigurer0 state dnsconfigurer0 address 169.254.20.10]" {
		t.Fatal(restored, failed)
	}
	socket := must.Get(net.ListenPacket("udp", netip.AddrPortFrom(addr, 53).String()))(t)
	defer socket.Close()
	socket.SetReadDeadline(time.Now().Add(time.Minute))
	changes, ended := make(chan struct{}, 100), make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- i.Watch(ctx, func() { changes <- struct{}{} }) }()
	<-changes
	for _, tt := range []struct{ command, want string }{
		{"ip address del 169.254.20.10/32 dev dnsconfigurer0", "[address 169.254.20.10]"},
		{"ip link set dnsconfigurer0 down", "[state dnsconfigurer0]"},
		{"ip link del dnsconfigurer0", "[interface dnsconfigurer0 state dnsconfigurer0 address 169.254.20.10]"},
	} {
		for len(changes) > 0 {
			<-changes
		}
		netns.Run(t, tt.command)
		<-changes
		if restored, failed := i.Ensure(); len(failed) > 0 || fmt.Sprint(restored) != tt.want {
			t.Errorf("%s: restored %v, want %s; %v", tt.command, restored, tt.want, failed)
		}
		netns.Run(t, "ip link set lo up") // the way from the host to its own addresses
		client := must.Get(net.Dial("udp", socket.LocalAddr().String()))(t)
		if _, err := client.Write([]byte(tt.command)); err != nil {
			t.Error(err)
		}
		client.Close()
		got := make([]byte, 100)
		n, _, err := socket.ReadFrom(got)
		if string(got[:n]) != tt.command {
			t.Errorf("received %q, want %q; %v", got[:n], tt.command, err)
		}
	}
	if restored, failed := i.Ensure(); len(restored)+len(failed) > 0 {
		t.Errorf("nothing is missing: %v, %v", restored, failed)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWithLinkHint(t *testing.T) {
	for err, want := range map[error]string{
		unix.EOPNOTSUPP: "load the kernel module dummy, or assign the address yourself and leave interface empty",
		unix.EPERM:      "add CAP_NET_ADMIN",
		unix.ENODEV:     unix.ENODEV.Error(),
	} {
		if got := withLinkHint(err); !errors.Is(got, err) || !strings.HasSuffix(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// ruleset returns the rules in the namespace, as nft prints them, without blank lines.
func ruleset(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	return string(out)
}

// enter reports whether the test runs in a network namespace of its own, as netns.Enter does.
// It installs nft before: from the namespace, no archive is reachable.
func enter(t *testing.T) bool {
	t.Helper()
	debian.Install(t, "nft", "nftables")
	return netns.Enter(t)
}

func TestInstall_Rules(t *testing.T) {
	if !enter(t) {
		return
	}
	addrs := []Address{{netip.MustParseAddrPort("10.96.0.10:53"), false}, {netip.MustParseAddrPort("[fd00:10::a]:1053"), true}}
	first := must.Get(Install(addrs))(t)
	defer first.Remove()
	const want = `	flags owner

	set alive6 {
		type ipv6_addr
		size 64
		flags dynamic,timeout
		timeout 300ms
	}

	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		ip daddr 10.96.0.10 udp dport 53 notrack accept
		ip6 daddr fd00:10::a udp dport 1053 ip6 daddr @alive6 notrack accept
		ip daddr 10.96.0.10 tcp dport 53 notrack accept
		ip6 daddr fd00:10::a tcp dport 1053 ip6 daddr @alive6 notrack accept
	}

	chain output {
		type filter hook output priority raw; policy accept;
		ip saddr 10.96.0.10 udp sport 53 notrack accept
		ip daddr 10.96.0.10 udp dport 53 notrack accept
		ip6 saddr fd00:10::a udp sport 1053 notrack ip6 saddr @alive6 update @alive6 { ip6 saddr } accept
		ip6 daddr fd00:10::a udp dport 1053 meta mark 0x00000035 notrack accept
		ip6 daddr fd00:10::a udp dport 1053 meta mark 0x00000036 update @alive6 { ip6 daddr } notrack accept
		ip6 daddr fd00:10::a udp dport 1053 ip6 daddr @alive6 notrack accept
		ip saddr 10.96.0.10 tcp sport 53 notrack accept
		ip daddr 10.96.0.10 tcp dport 53 notrack accept
		ip6 saddr fd00:10::a tcp sport 1053 notrack accept
		ip6 daddr fd00:10::a tcp dport 1053 meta mark 0x00000035 notrack accept
		ip6 daddr fd00:10::a tcp dport 1053 ip6 daddr @alive6 notrack accept
	}
}
`
	_, got, _ := strings.Cut(ruleset(t), "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	// Each instance has a table, which other processes cannot remove.
	second := must.Get(Install(addrs[:1]))(t)
	netns.Run(t, "nft flush ruleset")
	if out, err := exec.Command("nft", "delete", "table", "inet", first.table).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Operation not permitted") {
		t.Errorf("nft delete: %v\n%s", err, out)
	}
	if n := strings.Count(ruleset(t), "table inet dnsconfigurer-"); n != 2 {
		t.Errorf("%d tables, want 2", n)
	}
	second.Remove()
	if got := ruleset(t); !strings.Contains(got, first.table) || strings.Contains(got, second.table) {
		t.Errorf("want %s alone:\n%s", first.table, got)
	}
	first.Remove()
	if got := ruleset(t); got != "" {
		t.Errorf("rules are left:\n%s", got)
	}
}

func TestWithHint(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:      "operation not permitted: add CAP_NET_ADMIN",
		unix.EOPNOTSUPP: "operation not supported: want Linux 5.12 or later with nf_tables",
		unix.ENOBUFS:    "no buffer space available",
	} {
		if got := withHint(err).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestInstall_Crash: the rules end with the process, without its doing.
func TestInstall_Crash(t *testing.T) {
	if !enter(t) {
		return
	}
	const crash = "DNSCONFIGURER_TEST_CRASH"
	if os.Getenv(crash) != "" {
		must.Get(Install([]Address{{netip.MustParseAddrPort("10.96.0.10:53"), false}}))(t)
		fmt.Print(ruleset(t))
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crash+"=1")
	out, err := cmd.Output()
	if err == nil || err.Error() != "signal: killed" || !strings.Contains(string(out), "ip daddr 10.96.0.10 udp dport 53 notrack accept") {
		t.Errorf("%v, rules before the crash:\n%s", err, out)
	}
	got := ruleset(t)
	for deadline := time.Now().Add(time.Minute); got != "" && time.Now().Before(deadline); got = ruleset(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if got != "" {
		t.Errorf("rules are left:\n%s", got)
	}
}

// BenchmarkRules: a query of a pod to the node cache and its reply, on one thread, so that the time is the kernel's alone.
// Connections are tracked, as they are where kube-proxy has rules.
func BenchmarkRules(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root for a network namespace")
	}
	debian.Install(b, "nft", "nftables")
	addr := netip.MustParseAddrPort("169.254.20.10:53")
	for _, bb := range []struct {
		name  string
		rules []Address
	}{
		{"kube-proxy", nil},
		{"without lease", []Address{{addr, false}}},
		{"lease", []Address{{addr, true}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			must.Succeed(b, unix.Unshare(unix.CLONE_NEWNET))
			netns.Run(b, "ip link set lo up", "ip address add "+addr.Addr().String()+"/32 dev lo", "nft add table ip kube-proxy",
				"nft add chain ip kube-proxy services { type nat hook prerouting priority -100 ; }",
				"nft add rule ip kube-proxy services ip daddr 10.96.0.1 tcp dport 443 dnat to 10.244.0.3:6443")
			pod := netns.NewPod(b, 1)
			server, client := bind(b, addr), -1
			pod.Do(func() { client = bind(b, netip.MustParseAddrPort(pod.Addr+":5353")) })
			if bb.rules != nil {
				rules := must.Get(Install(bb.rules))(b)
				defer rules.Remove()
			}
			must.Succeed(b, unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_MARK, grantMark))
			exchange(b, server, server, addr) // begins the lease
			must.Succeed(b, unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_MARK, 0))
			for b.Loop() {
				exchange(b, client, server, addr)
			}
		})
	}
}

// bind returns a socket with an address.
func bind(b *testing.B, addr netip.AddrPort) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	return fd
}

// exchange sends a query to a server, and its reply to the client.
func exchange(b *testing.B, client, server int, addr netip.AddrPort) {
	var packet [40]byte
	err := unix.Sendto(client, packet[:], 0, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())})
	_, from, err2 := unix.Recvfrom(server, packet[:], 0)
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	err = unix.Sendto(server, packet[:], 0, from)
	if _, _, err2 = unix.Recvfrom(client, packet[:], 0); err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
}
