// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Sockets are where queries come in.
type Sockets struct {
	udp []*net.UDPConn
	tcp []*net.TCPListener
}

// Listen opens a UDP and a TCP socket at each address. Port 0 is one that the
// kernel picks, the same for both.
func Listen(ctx context.Context, addrs []netip.AddrPort) (*Sockets, error) {
	if len(addrs) == 0 {
		return nil, errors.New("no address to listen on")
	}
	s := &Sockets{}
	for _, addr := range addrs {
		if err := s.listen(ctx, addr); err != nil {
			s.Close()
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
	}
	return s, nil
}

// portTries is how often the kernel is asked for a port, when it may be any: it gives one
// that is free for TCP, which another process may have for UDP.
const portTries = 10

func (s *Sockets) listen(ctx context.Context, addr netip.AddrPort) error {
	for tries := 1; ; tries++ {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
		if err != nil {
			return err
		}
		udp, err := listenUDP(ctx, netip.AddrPortFrom(addr.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port()))
		if err == nil {
			s.tcp, s.udp = append(s.tcp, l), append(s.udp, udp)
			return nil
		}
		l.Close()
		if addr.Port() != 0 || tries == portTries {
			return err
		}
	}
}

// Addrs returns the addresses, in the order in which they were asked for.
func (s *Sockets) Addrs() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range s.tcp {
		addrs = append(addrs, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return addrs
}

// Close closes the sockets. [Server.Run] does it, too.
func (s *Sockets) Close() {
	for _, c := range s.udp {
		c.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}

// stopReading ends the reads in progress and to come; replies can still be sent.
func (s *Sockets) stopReading() {
	past := time.Unix(1, 0)
	for _, c := range s.udp {
		c.SetReadDeadline(past)
	}
	for _, l := range s.tcp {
		l.SetDeadline(past)
	}
}
