// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// fallbackTable has the translation. It has no owner: it remains when the process ends.
const fallbackTable = "dnsconfigurer-fallback"

// The translation comes before that of kube-proxy (-100), so that a packet is translated once. Masquerading
// comes before that of kube-proxy (100), too.
const (
	priorityTranslate  = -110
	priorityMasquerade = 90
)

// SetFallback makes the kernel translate queries to addrs to one of the servers of the same family, at
// random, unless rules of [Install] exempt them. It replaces the previous translation; without
// addresses it removes it. It needs CAP_NET_ADMIN.
//
// A query of the host has the address itself as its source, which the server cannot reply to. It gets
// an address of the interface through which it leaves.
func SetFallback(addrs, servers []netip.AddrPort) error {
	const table = fallbackTable
	list := []message{newTable(table, 0), {unix.NFT_MSG_DELTABLE, []*nl.RtAttr{text(unix.NFTA_TABLE_NAME, table)}}}
	if len(addrs) > 0 {
		list = append(list, newTable(table, 0), newChain(table, prerouting, "nat", priorityTranslate),
			newChain(table, output, "nat", priorityTranslate), newChain(table, postrouting, "nat", priorityMasquerade))
	}
	for _, addr := range addrs {
		f := familyOf(addr.Addr())
		same := slices.DeleteFunc(slices.Clone(servers), func(s netip.AddrPort) bool { return familyOf(s.Addr()) != f })
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			query := matchPacket(addr, protocol, destination)
			if protocol == unix.IPPROTO_TCP {
				query = slices.Concat(query, synchronize())
			}
			for i, server := range same {
				// Of the queries that no rule before has translated, a share of 1 in what is left.
				share := compare(random(uint32(len(same)-i)), native(0)...)
				list = append(list,
					newRule(table, prerouting, query, share, f.translate(server)),
					newRule(table, output, query, share, f.translate(server)))
			}
			for _, server := range same {
				from := slices.Concat(
					compare(meta(unix.NFT_META_NFPROTO), f.protocol),
					compare(f.address(source), addr.Addr().Unmap().AsSlice()...))
				to := matchPacket(server, protocol, destination)
				list = append(list, newRule(table, postrouting, from, to, []*nl.RtAttr{expression("masq")}))
			}
		}
	}
	socket, err := apply(list)
	if err != nil {
		return err
	}
	socket.Close()
	return nil
}

// synchronize matches the first packet of a TCP connection. Others belong to a connection whose end is the
// node cache: it completes its replies after a stop.
func synchronize() []*nl.RtAttr {
	const flags, syn, ack = 13, 0x02, 0x10 // RFC 9293 section 3.1
	mask := expression("bitwise", number(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1), number(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1),
		number(unix.NFTA_BITWISE_LEN, 1),
		nested(unix.NFTA_BITWISE_MASK, nl.NewRtAttr(unix.NFTA_DATA_VALUE, []byte{syn | ack})),
		nested(unix.NFTA_BITWISE_XOR, nl.NewRtAttr(unix.NFTA_DATA_VALUE, []byte{0})))
	load := payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, flags, 1)
	return append([]*nl.RtAttr{load}, compare(mask, syn)...)
}

// random loads a random number below n.
func random(n uint32) *nl.RtAttr {
	return expression("numgen", number(unix.NFTA_NG_DREG, unix.NFT_REG_1), number(unix.NFTA_NG_MODULUS, n),
		number(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM))
}

// translate replaces the destination of a packet by the server.
func (f family) translate(server netip.AddrPort) []*nl.RtAttr {
	load := func(register uint32, value []byte) *nl.RtAttr {
		return expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, register),
			nested(unix.NFTA_IMMEDIATE_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, value)))
	}
	return []*nl.RtAttr{
		load(unix.NFT_REG_1, server.Addr().Unmap().AsSlice()),
		load(unix.NFT_REG_2, binary.BigEndian.AppendUint16(nil, server.Port())),
		expression("nat", number(unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT), number(unix.NFTA_NAT_FAMILY, uint32(f.protocol)),
			number(unix.NFTA_NAT_REG_ADDR_MIN, unix.NFT_REG_1), number(unix.NFTA_NAT_REG_PROTO_MIN, unix.NFT_REG_2)),
	}
}

// ProbeDialer opens sockets for queries to a leased address that are exempt without a lease, and begin it if
// grant is set. It needs CAP_NET_ADMIN.
func ProbeDialer(grant bool) *net.Dialer {
	mark := probeMark
	if grant {
		mark = grantMark
	}
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		control := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
		return errors.Join(control, err)
	}}
}
