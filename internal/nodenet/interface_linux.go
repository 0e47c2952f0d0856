// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Ensure creates a dummy interface unless the interface exists, sets it up and assigns the
// addresses. Other addresses of the interface stay. It returns what was missing, and the error
// of each address that still is. Ensure needs CAP_NET_ADMIN.
//
// An existing interface must be a dummy or the loopback. Any other kind is an error: the
// node would announce the addresses to its network.
func (i Interface) Ensure() (restored []Restored, failed map[netip.Addr]error) {
	link, restored, err := i.ensureLink()
	var assigned []netlink.Addr
	if err == nil {
		if assigned, err = netlink.AddrList(link, netlink.FAMILY_ALL); err != nil {
			err = fmt.Errorf("listing the addresses of interface %s: %w", i.Name, err)
		}
	}
	failed = map[netip.Addr]error{}
	for _, addr := range i.Addrs {
		if err != nil {
			failed[addr] = err
			continue
		}
		want := hostAddr(addr)
		if slices.ContainsFunc(assigned, func(a netlink.Addr) bool { return a.IPNet.String() == want.IPNet.String() }) {
			continue
		}
		if err := netlink.AddrReplace(link, want); err != nil {
			failed[addr] = fmt.Errorf("assigning %s to interface %s: %w", addr, i.Name, withAddrHint(addr, i.Name, err))
			continue
		}
		restored = append(restored, Restored{KindAddress, addr.String()})
	}
	return restored, failed
}

// ensureLink returns the interface. It creates the interface if there is none, and sets it up.
func (i Interface) ensureLink() (link netlink.Link, restored []Restored, err error) {
	kind := cmp.Or(i.kind, "dummy")
	link, err = netlink.LinkByName(i.Name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		err = netlink.LinkAdd(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: i.Name}, LinkType: kind})
		if err != nil && !errors.Is(err, unix.EEXIST) { // another instance may have created it
			return nil, nil, fmt.Errorf("creating %s interface %s: %w", kind, i.Name, withLinkHint(err))
		}
		restored = append(restored, Restored{KindInterface, i.Name})
		link, err = netlink.LinkByName(i.Name)
	}
	if err != nil {
		return nil, restored, fmt.Errorf("interface %s: %w", i.Name, err)
	}
	if link.Type() != kind && link.Attrs().Flags&net.FlagLoopback == 0 {
		return nil, restored, fmt.Errorf("interface %s is of type %s, want %s: choose another name", i.Name, link.Type(), kind)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return nil, restored, fmt.Errorf("setting interface %s up: %w", i.Name, err)
		}
		restored = append(restored, Restored{KindState, i.Name})
	}
	return link, restored, nil
}

// withLinkHint adds to an error of LinkAdd what to do about it.
func withLinkHint(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: load the kernel module dummy, or assign the address yourself and leave interface empty", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: add CAP_NET_ADMIN", err)
	}
	return err
}

// withAddrHint is withLinkHint for an error of AddrReplace. The kernel refuses an IPv6 address
// with EACCES if the sysctl disables IPv6 (inet6_addr_add), and with EOPNOTSUPP or
// EAFNOSUPPORT if it was started without IPv6.
func withAddrHint(addr netip.Addr, name string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: add CAP_NET_ADMIN", err)
	case addr.Is4():
		return err
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: remove the address, or set the sysctl net.ipv6.conf.%s.disable_ipv6=0", ErrFamilyDisabled, name)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%w: remove the address, or the kernel parameter ipv6.disable=1", ErrFamilyDisabled)
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

// Watch calls changed after each change of an interface or address of the node, until ctx
// ends. It does not look at the change: what matters is the state, which Ensure reads.
func (i Interface) Watch(ctx context.Context, changed func()) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("watching interfaces: %w", err)
	}
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	changed() // may have happened before the subscription
	for {
		_, _, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, unix.ENOBUFS): // more changes than the buffer holds are a change
			return fmt.Errorf("watching interfaces: %w", err)
		}
		changed()
	}
}
