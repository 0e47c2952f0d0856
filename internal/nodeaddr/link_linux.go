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

// Ensure makes a dummy interface of that name if there is no interface that has it, sets
// it up, and gives it the addresses. Others that it has stay. It needs CAP_NET_ADMIN. An
// interface that leads to other machines is an error: they would be told of the addresses.
func Ensure(name string, addrs []netip.Addr) error {
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(dummy); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the interface %s, of type dummy: %w", name, hinted(err))
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if link.Type() != dummy.Type() && link.Attrs().Flags&net.FlagLoopback == 0 {
		return fmt.Errorf("interface %s is of type %s: name one that there is not yet, or one of type %s", name, link.Type(), dummy.Type())
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting the interface %s up: %w", name, err)
	}
	for _, addr := range addrs {
		if err := netlink.AddrReplace(link, own(addr)); err != nil {
			return fmt.Errorf("giving %s to the interface %s: %w", addr, name, err)
		}
	}
	return nil
}

// hinted adds to the kernel's err, for which it made no interface, what can be done about it.
func hinted(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w; the kernel has no interfaces of type dummy: load its module, or make the address yourself and leave interface empty", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w; needs CAP_NET_ADMIN", err)
	}
	return err
}

// own is an address as that of one host. IPv6 is not to look whether another host has it,
// for until that is known nobody can listen on it.
func own(addr netip.Addr) *netlink.Addr {
	addr = addr.Unmap()
	a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}}
	if addr.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}
