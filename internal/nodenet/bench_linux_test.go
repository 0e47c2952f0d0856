// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

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
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				b.Fatal(err)
			}
			netns.Run(b, "ip link set lo up", "ip address add "+addr.Addr().String()+"/32 dev lo", "nft add table ip kube-proxy",
				"nft add chain ip kube-proxy services { type nat hook prerouting priority -100 ; }",
				"nft add rule ip kube-proxy services ip daddr 10.96.0.1 tcp dport 443 dnat to 10.244.0.3:6443")
			pod := netns.NewPod(b, 1)
			server, client := bind(b, addr), -1
			pod.Do(func() { client = bind(b, netip.MustParseAddrPort(pod.Addr+":5353")) })
			if bb.rules != nil {
				rules, err := Install(bb.rules)
				if err != nil {
					b.Fatal(err)
				}
				defer rules.Remove()
			}
			if err := unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_MARK, grantMark); err != nil {
				b.Fatal(err)
			}
			exchange(b, server, server, addr) // begins the lease
			if err := unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_MARK, 0); err != nil {
				b.Fatal(err)
			}
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
