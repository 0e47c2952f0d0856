// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

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

	// An interface that is not there: made where the kernel has the driver, otherwise the
	// error says what for.
	err = Ensure("dnsconfigurer0", addrs[:1])
	if _, exists := net.InterfaceByName("dnsconfigurer0"); (err == nil) != (exists == nil) ||
		err != nil && (!errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "making the interface dnsconfigurer0, of type dummy")) {
		t.Errorf("a new interface: %v, %v", err, exists)
	}
}

// TestNewLink has the request for a dummy interface, as rtnetlink(7) describes it: for
// kernels of tests that have no driver for it.
func TestNewLink(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the octets below are those of a little-endian machine")
	}
	got := hex.EncodeToString(newLink("dns0"))
	want := strings.Join([]string{
		"3c000000", "1000", "0506", "00000000", "00000000", // length, RTM_NEWLINK, request ack excl create
		"00000000", "00000000", "00000000", "00000000", // ifinfomsg
		"0900", "0300", "646e733000000000", // IFLA_IFNAME dns0
		"1000", "1200", "0900", "0100", "64756d6d79" + "000000", // IFLA_LINKINFO, in it IFLA_INFO_KIND dummy
	}, "")
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// FuzzAcknowledged: whatever the kernel says is no panic.
func FuzzAcknowledged(f *testing.F) {
	f.Add([]byte{})
	f.Add(message(unix.NLMSG_ERROR, 0, []byte{0, 0, 0, 0}))
	f.Add(message(unix.NLMSG_ERROR, 0, []byte{0xef, 0xff, 0xff, 0xff}))
	f.Add(message(unix.NLMSG_ERROR, 0, []byte{0}))
	f.Add(message(unix.RTM_NEWLINK, 0, link(1, 0)))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if err := acknowledged(reply); err == nil && len(reply) < unix.SizeofNlMsghdr+4 {
			t.Errorf("%x is an acknowledgement", reply)
		}
	})
}
