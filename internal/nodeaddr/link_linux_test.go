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

// TestEnsure has an interface that is there, the loopback of a network namespace: it is up
// afterwards, has the addresses, however often it is told, and servers can listen on them.
func TestEnsure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
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
	has, err := lo.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		want := netip.PrefixFrom(addr, addr.BitLen()).String()
		if n := len(slices.DeleteFunc(slices.Clone(has), func(a net.Addr) bool { return a.String() != want })); n != 1 {
			t.Errorf("%s is there %d times: %v", want, n, has)
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 53).String())
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		l.Close()
	}

	// One that leads elsewhere.
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}); err != nil {
		t.Fatal(err)
	}
	if err := Ensure("eth0", addrs); err == nil || !strings.Contains(err.Error(), "interface eth0 is of type veth") {
		t.Error(err)
	}

	// An interface that is not there: made where the kernel has the driver, otherwise the
	// error says what for.
	err = Ensure("dnsconfigurer0", addrs[:1])
	if _, exists := net.InterfaceByName("dnsconfigurer0"); (err == nil) != (exists == nil) ||
		err != nil && (!errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "making the interface dnsconfigurer0, of type dummy")) {
		t.Errorf("a new interface: %v, %v", err, exists)
	}
}

// TestHinted: the operator hears what the kernel wants.
func TestHinted(t *testing.T) {
	for err, want := range map[error]string{
		unix.EOPNOTSUPP: "load its module, or make the address yourself and leave interface empty",
		unix.EPERM:      "needs CAP_NET_ADMIN",
		unix.ENODEV:     unix.ENODEV.Error(),
	} {
		if got := hinted(err); !errors.Is(got, err) || !strings.HasSuffix(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
