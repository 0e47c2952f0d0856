// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodeaddr

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
		if err := Ensure("lo", addrs); err != nil {
			t.Fatal(err)
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
	err := Ensure("eth0", []netip.Addr{netip.MustParseAddr("169.254.20.10")})
	if err == nil || !strings.Contains(err.Error(), "interface eth0 is of type veth, want dummy") {
		t.Error(err)
	}
}

// TestEnsure_NewInterface creates an interface if the kernel has the dummy driver. If it does
// not, the error must say so.
func TestEnsure_NewInterface(t *testing.T) {
	enterNamespace(t)
	err := Ensure("dnsconfigurer0", []netip.Addr{netip.MustParseAddr("169.254.20.10")})
	_, missing := net.InterfaceByName("dnsconfigurer0")
	if (err == nil) != (missing == nil) {
		t.Errorf("Ensure: %v, the interface: %v", err, missing)
	}
	if err != nil && (!errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "creating dummy interface dnsconfigurer0")) {
		t.Error(err)
	}
}

func TestWithHint_Errors(t *testing.T) {
	for err, want := range map[error]string{
		unix.EOPNOTSUPP: "load the kernel module dummy, or assign the address yourself and leave interface empty",
		unix.EPERM:      "add CAP_NET_ADMIN",
		unix.ENODEV:     unix.ENODEV.Error(),
	} {
		if got := withHint(err); !errors.Is(got, err) || !strings.HasSuffix(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
