// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Rules are the rules of one instance, in a table of their own: an instance that ends does
// not remove the rules of its successor.
type Rules struct {
	table  string            // of the family inet
	socket *nl.NetlinkSocket // owns the table
}

// tableOwner is the flag of a table that belongs to a netlink socket (NFT_TABLE_F_OWNER,
// Linux 5.12). No other process can change it, not even with "nft flush ruleset". The kernel
// removes it when the socket is closed.
const tableOwner = 0x2

// timeout bounds the wait for the kernel, which answers at once.
const timeout = 5 * time.Second

// Install writes rules for queries to addrs, over UDP and TCP, and for the replies. It needs
// CAP_NET_ADMIN.
func Install(addrs []netip.AddrPort) (*Rules, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening a netfilter socket: %w", err)
	}
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	r := &Rules{table: "dnsconfigurer-" + strings.ToLower(rand.Text()[:8]), socket: socket}
	if err = errors.Join(socket.SetReceiveTimeout(&wait), socket.SetSendTimeout(&wait)); err == nil {
		err = commit(socket, r.messages(addrs))
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("writing nftables rules: %w", withHint(err))
	}
	return r, nil
}

// withHint adds to an error of the kernel what to do about it.
func withHint(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: add CAP_NET_ADMIN", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: want Linux 5.12 or later with nf_tables", err)
	}
	return err
}

// Remove removes the rules.
func (r *Rules) Remove() { r.socket.Close() }

// priorityRaw is before connection tracking (-200) and after the defragmentation (-400).
const priorityRaw = -300

// messages returns the messages that create the table. Packets of pods pass prerouting, and
// those of the host pass output. Replies pass output: untracked as well, they do not create an
// entry for the reverse direction.
func (r *Rules) messages(addrs []netip.AddrPort) []message {
	list := []message{
		{unix.NFT_MSG_NEWTABLE, []*nl.RtAttr{text(unix.NFTA_TABLE_NAME, r.table), number(unix.NFTA_TABLE_FLAGS, tableOwner)}},
		r.newChain("prerouting", unix.NF_INET_PRE_ROUTING),
		r.newChain("output", unix.NF_INET_LOCAL_OUT),
	}
	for _, addr := range addrs {
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			to, from := matchPackets(addr, protocol, destination), matchPackets(addr, protocol, source)
			notrack := expression("notrack")
			list = append(list,
				r.newRule("prerouting", append(to, notrack)),
				r.newRule("output", append(to, notrack)),
				r.newRule("output", append(from, notrack)))
		}
	}
	return list
}

func (r *Rules) newChain(name string, hook uint32) message {
	return message{unix.NFT_MSG_NEWCHAIN, []*nl.RtAttr{
		text(unix.NFTA_CHAIN_TABLE, r.table),
		text(unix.NFTA_CHAIN_NAME, name),
		text(unix.NFTA_CHAIN_TYPE, "filter"),
		nested(unix.NFTA_CHAIN_HOOK,
			number(unix.NFTA_HOOK_HOOKNUM, hook),
			number(unix.NFTA_HOOK_PRIORITY, 1<<32+priorityRaw)), // a negative number in 32 bits
	}}
}

func (r *Rules) newRule(chain string, expressions []*nl.RtAttr) message {
	return message{unix.NFT_MSG_NEWRULE, []*nl.RtAttr{
		text(unix.NFTA_RULE_TABLE, r.table),
		text(unix.NFTA_RULE_CHAIN, chain),
		nested(unix.NFTA_RULE_EXPRESSIONS, expressions...),
	}}
}

type side uint8

const (
	source side = iota
	destination
)

// matchPackets returns the expressions that match the packets from or to an address, as
// "nft --debug=netlink" prints them: each loads a value into register 1 and compares it.
func matchPackets(addrPort netip.AddrPort, protocol byte, s side) []*nl.RtAttr {
	addr := addrPort.Addr().Unmap()
	family, offset := byte(unix.NFPROTO_IPV4), uint32(12) // of the source address, RFC 791 section 3.1
	if addr.Is6() {
		family, offset = unix.NFPROTO_IPV6, 8 // RFC 8200 section 3
	}
	length, port := uint32(addr.BitLen()/8), uint32(0)
	if s == destination {
		offset, port = offset+length, 2
	}
	return slices.Concat(
		compare(meta(unix.NFT_META_NFPROTO), family),
		compare(payload(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, length), addr.AsSlice()...),
		compare(meta(unix.NFT_META_L4PROTO), protocol),
		compare(payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, port, 2), byte(addrPort.Port()>>8), byte(addrPort.Port())),
	)
}
