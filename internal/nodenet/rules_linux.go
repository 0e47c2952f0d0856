// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"crypto/rand"
	"encoding/binary"
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
	leased []family          // with an address that has a lease
	socket *nl.NetlinkSocket // owns the table
	last   int               // a duplicate of the socket, see firstClosed
}

// firstClosed is the least descriptor of the duplicate. The kernel closes the descriptors of a killed process from the
// highest to the lowest (exit_files in kernel/exit.c queues them, and task_work_run begins with the last one). Where a
// socket that listens is closed before the table is gone, the node refuses TCP connections instead of translating them.
const firstClosed = 512

// The marks of queries (SO_MARK) that are exempt without a lease. They have no bit in common with the marks of
// kube-proxy (0x4000, 0x8000).
const (
	probeMark = 53
	grantMark = 54 // they also begin the lease
)

// maxAddresses bounds the addresses of a family that have a lease.
const maxAddresses = 64

// tableOwner is the flag of a table that belongs to a netlink socket (NFT_TABLE_F_OWNER,
// Linux 5.12). No other process can change it, not even with "nft flush ruleset". The kernel
// removes it when the socket is closed.
const tableOwner = 0x2

// timeout bounds the wait for the kernel, which answers at once.
const timeout = 5 * time.Second

// Install writes rules for queries to addrs, over UDP and TCP, and for the replies. It needs
// CAP_NET_ADMIN.
func Install(addrs []Address) (*Rules, error) {
	r := &Rules{table: "dnsconfigurer-" + strings.ToLower(rand.Text()[:8])}
	var err error
	if r.socket, err = apply(r.messages(addrs)); err != nil {
		return nil, err
	}
	if r.last, err = unix.FcntlInt(uintptr(r.socket.GetFd()), unix.F_DUPFD_CLOEXEC, firstClosed); err != nil {
		r.socket.Close()
		return nil, fmt.Errorf("duplicating a netfilter socket: %w", err)
	}
	return r, nil
}

// apply commits the messages through a new socket. The tables with the flag tableOwner live as long as it.
func apply(messages []message) (*nl.NetlinkSocket, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening a netfilter socket: %w", err)
	}
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	if err = errors.Join(socket.SetReceiveTimeout(&wait), socket.SetSendTimeout(&wait)); err == nil {
		err = commit(socket, messages)
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("writing nftables rules: %w", withHint(err))
	}
	return socket, nil
}

// Remove removes the rules. From then on the kernel tracks replies: it takes a query that is sent again from the same
// port for a part of that connection, and does not translate it. So call Revoke before the last reply, and Remove after
// it.
func (r *Rules) Remove() {
	r.socket.Close()
	unix.Close(r.last)
	r.last = -1
}

// Revoke ends the leases, best effort: without a new grant they end anyway if no replies are sent.
func (r *Rules) Revoke() {
	var list []message
	for _, f := range r.leased {
		list = append(list, message{unix.NFT_MSG_DELSETELEM, []*nl.RtAttr{
			text(unix.NFTA_SET_ELEM_LIST_TABLE, r.table), text(unix.NFTA_SET_ELEM_LIST_SET, f.lease)}})
	}
	if len(list) > 0 {
		_ = commit(r.socket, list)
	}
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

// messages returns the messages that create the table. Packets of pods pass prerouting, and
// those of the host pass output. Replies pass output: untracked as well, they do not create an
// entry for the reverse direction. A reply over UDP renews the lease while it lasts; the kernel completes
// TCP handshakes for a process that hangs.
func (r *Rules) messages(addrs []Address) []message {
	list := []message{newTable(r.table, tableOwner)}
	for _, family := range []family{ipv4, ipv6} {
		if slices.ContainsFunc(addrs, func(a Address) bool { return a.Leased && familyOf(a.Addr()) == family }) {
			r.leased = append(r.leased, family)
			list = append(list, newLeaseSet(r.table, family))
		}
	}
	list = append(list, newChain(r.table, prerouting, "filter", priorityRaw), newChain(r.table, output, "filter", priorityRaw))
	for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
		for _, addr := range addrs {
			list = append(list, r.exempt(addr, protocol)...)
		}
	}
	return list
}

// exempt returns the rules for packets to and from an address. Each ends with accept, and the one for replies is the
// first of its chain: packets of pods pass few rules.
func (r *Rules) exempt(addr Address, protocol byte) []message {
	f := familyOf(addr.Addr())
	query := matchPacket(addr.AddrPort, protocol, destination)
	reply := slices.Concat(matchPacket(addr.AddrPort, protocol, source), notrack)
	exempt := query
	var marked []message
	if addr.Leased {
		exempt = slices.Concat(query, f.inLease(destination))
		probe := compare(meta(unix.NFT_META_MARK), native(probeMark)...)
		marked = append(marked, newRule(r.table, output, query, probe, notrack, accept))
		if protocol == unix.IPPROTO_UDP {
			grant := compare(meta(unix.NFT_META_MARK), native(grantMark)...)
			marked = append(marked, newRule(r.table, output, query, grant, f.renewLease(destination), notrack, accept))
			reply = slices.Concat(reply, f.inLease(source), f.renewLease(source))
		}
	}
	return slices.Concat([]message{newRule(r.table, output, reply, accept)}, marked, []message{
		newRule(r.table, prerouting, exempt, notrack, accept), newRule(r.table, output, exempt, notrack, accept)})
}

// priorityRaw is before connection tracking (-200) and after the defragmentation (-400).
const priorityRaw = -300

// family is an address family with the place of its addresses in a packet.
type family struct {
	protocol byte   // of nftables
	keyType  uint32 // of a set of addresses, as nft(8) names it
	offset   uint32 // of the source address, RFC 791 section 3.1 and RFC 8200 section 3
	length   uint32 // of an address
	lease    string // the set with the addresses whose lease lasts
}

var (
	ipv4 = family{unix.NFPROTO_IPV4, 7, 12, 4, "alive4"}
	ipv6 = family{unix.NFPROTO_IPV6, 8, 8, 16, "alive6"}
)

func familyOf(addr netip.Addr) family {
	if addr.Unmap().Is4() {
		return ipv4
	}
	return ipv6
}

// newLeaseSet creates the set of addresses whose lease lasts.
func newLeaseSet(table string, f family) message {
	return message{unix.NFT_MSG_NEWSET, []*nl.RtAttr{
		text(unix.NFTA_SET_TABLE, table),
		text(unix.NFTA_SET_NAME, f.lease),
		number(unix.NFTA_SET_FLAGS, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL),
		number(unix.NFTA_SET_KEY_TYPE, f.keyType),
		number(unix.NFTA_SET_KEY_LEN, f.length),
		number(unix.NFTA_SET_ID, uint32(f.protocol)),
		nested(unix.NFTA_SET_DESC, number(unix.NFTA_SET_DESC_SIZE, maxAddresses)),
		nl.NewRtAttr(unix.NFTA_SET_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(LeaseTime.Milliseconds()))),
	}}
}

// address loads the address of a side of the packet into register 1.
func (f family) address(s side) *nl.RtAttr {
	return payload(unix.NFT_PAYLOAD_NETWORK_HEADER, f.offset+uint32(s)*f.length, f.length)
}

// inLease matches packets whose address on a side has a lease.
func (f family) inLease(s side) []*nl.RtAttr {
	return []*nl.RtAttr{f.address(s),
		expression("lookup", text(unix.NFTA_LOOKUP_SET, f.lease), number(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1))}
}

// renewLease begins or renews the lease of an address of the packet.
func (f family) renewLease(s side) []*nl.RtAttr {
	return []*nl.RtAttr{f.address(s),
		expression("dynset", text(unix.NFTA_DYNSET_SET_NAME, f.lease), number(unix.NFTA_DYNSET_OP, unix.NFT_DYNSET_OP_UPDATE),
			number(unix.NFTA_DYNSET_SREG_KEY, unix.NFT_REG_1))}
}

var (
	notrack = []*nl.RtAttr{expression("notrack")}

	// accept ends the chain, not the packet's way through the others of the hook.
	accept = []*nl.RtAttr{expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nested(unix.NFTA_IMMEDIATE_DATA, nested(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, nfAccept))))}
)

// nfAccept is NF_ACCEPT of linux/netfilter.h.
const nfAccept = 1

type side uint8

const (
	source side = iota
	destination
)

// matchPacket returns the expressions that match the packets from or to an address, as "nft --debug=netlink"
// prints them: each loads a value into register 1 and compares it.
func matchPacket(addr netip.AddrPort, protocol byte, s side) []*nl.RtAttr {
	f := familyOf(addr.Addr())
	return slices.Concat(
		compare(meta(unix.NFT_META_NFPROTO), f.protocol),
		compare(f.address(s), addr.Addr().Unmap().AsSlice()...),
		compare(meta(unix.NFT_META_L4PROTO), protocol),
		compare(payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2*uint32(s), 2), binary.BigEndian.AppendUint16(nil, addr.Port())...),
	)
}
