// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// network sends the queries of one lookup at a time. It has a socket for each family,
// which glibc queries at once.
type network map[uint16]*net.UDPConn

func dial(from netip.Addr, server netip.AddrPort) (network, error) {
	n := network{}
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(server))
		if err != nil {
			n.close()
			return nil, err
		}
		n[qtype] = conn
	}
	return n, nil
}

func (n network) close() {
	for _, conn := range n {
		conn.Close()
	}
}

// exchange is a libc.Exchange. All nameservers are the same server.
func (n network) exchange(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
	conn := n[query.Question[0].Qtype]
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
	}
	wire, err := query.Pack()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	var buffer [dns.DefaultMsgSize]byte
	for {
		size, err := conn.Read(buffer[:])
		if err != nil {
			return nil, err
		}
		m := new(dns.Msg)
		if err := m.Unpack(buffer[:size]); err == nil && m.Id == query.Id { // else a late reply
			return m, nil
		}
	}
}

// noTCP is a libc.Exchange that is not used: the replies here are short.
func noTCP(context.Context, netip.Addr, *dns.Msg) (*dns.Msg, error) {
	return nil, errors.New("an answer does not fit into a datagram")
}
