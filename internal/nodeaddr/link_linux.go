// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodeaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ensure creates a dummy interface called name unless the interface exists, sets it up and
// assigns addrs to it. Other addresses of the interface stay. Ensure needs CAP_NET_ADMIN.
//
// An existing interface must be a dummy or the loopback. Any other kind is an error: the
// node would announce the addresses to its network.
func Ensure(name string, addrs []netip.Addr) error {
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(dummy); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("creating dummy interface %s: %w", name, withHint(err))
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if link.Type() != dummy.Type() && link.Attrs().Flags&net.FlagLoopback == 0 {
		return fmt.Errorf("interface %s is of type %s, want %s: choose another name", name, link.Type(), dummy.Type())
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting interface %s up: %w", name, err)
	}
	for _, addr := range addrs {
		if err := netlink.AddrReplace(link, hostAddr(addr)); err != nil {
			return fmt.Errorf("assigning %s to interface %s: %w", addr, name, err)
		}
	}
	return nil
}

// withHint adds to an error of LinkAdd what to do about it.
func withHint(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: load the kernel module dummy, or assign the address yourself and leave interface empty", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: add CAP_NET_ADMIN", err)
	}
	return err
}

// hostAddr returns addr with the prefix length of a single address. Duplicate address
// detection is off for IPv6: until it is done, no process can listen on the address.
func hostAddr(addr netip.Addr) *netlink.Addr {
	addr = addr.Unmap()
	a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}}
	if addr.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}
