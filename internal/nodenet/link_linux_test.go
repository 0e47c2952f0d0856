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
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
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
	assigned, err := lo.Addrs()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}); err != nil {
		t.Fatal(err)
	}
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
	socket, err := net.ListenPacket("udp", netip.AddrPortFrom(addr, 53).String())
	if err != nil {
		t.Fatal(err)
	}
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
		client, err := net.Dial("udp", socket.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
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
