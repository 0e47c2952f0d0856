// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Sockets are the sockets on which a Server receives queries. Use [Listen] or [ListenShared] to open them.
type Sockets struct {
	udp []*udpSocket // udp[i] and tcp[i] have the same address
	tcp []*net.TCPListener
}

// Listen opens a UDP and a TCP socket at each address. For port 0 the kernel chooses a port, the same for both. If a
// socket cannot be opened, Listen opens none and returns an error that names its address.
func Listen(ctx context.Context, addrs []netip.AddrPort) (*Sockets, error) {
	return listen(ctx, addrs, false)
}

// ListenShared is Listen for a server that takes over from another one with the same addresses, which also used
// ListenShared and runs as the same user. The new sockets receive all packets and connections as soon as they are
// open, so that none is lost when the other server drains and exits. At most two servers can share an address: among
// three it is undefined which one receives. It works on Linux only.
func ListenShared(ctx context.Context, addrs []netip.AddrPort) (*Sockets, error) {
	return listen(ctx, addrs, true)
}

// ListenSharedTCP opens a TCP socket as ListenShared does, for another service of a server that
// takes over, such as its metrics.
func ListenSharedTCP(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listenTCP(ctx, addr, true)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func listen(ctx context.Context, addrs []netip.AddrPort, shared bool) (*Sockets, error) {
	if len(addrs) == 0 {
		return nil, errors.New("no address to listen on")
	}
	s := &Sockets{}
	for _, addr := range addrs {
		if err := s.listen(ctx, addr, shared); err != nil {
			s.Close()
			return nil, fmt.Errorf("listening on %s: %w", addr, withoutCall(err))
		}
	}
	return s, nil
}

// withoutCall returns an error of package net without the address and the system call.
func withoutCall(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}

// portTries is how many ports chosen by the kernel are tried: the port is free for TCP, but
// another process may use it for UDP.
const portTries = 10

func (s *Sockets) listen(ctx context.Context, addr netip.AddrPort, shared bool) error {
	for tries := 1; ; tries++ {
		l, err := listenTCP(ctx, addr.String(), shared)
		if err != nil {
			return err
		}
		udp, err := listenUDP(ctx, netip.AddrPortFrom(addr.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port()), shared)
		if err == nil {
			s.tcp, s.udp = append(s.tcp, l), append(s.udp, &udpSocket{UDPConn: udp})
			return nil
		}
		l.Close()
		if addr.Port() != 0 || tries == portTries {
			return err
		}
	}
}

func listenTCP(ctx context.Context, addr string, shared bool) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // MPTCP sockets do not support the option of takeOver
	if shared {
		config.Control = share
	}
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := listener.(*net.TCPListener)
	if !shared {
		return l, nil
	}
	if err := takeOver(l); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func listenUDP(ctx context.Context, addr netip.AddrPort, shared bool) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if shared {
			if err := share(network, address, c); err != nil {
				return err
			}
		}
		return setOptions(c, network, addr.Addr().IsUnspecified())
	}}
	conn, err := config.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		return nil, err
	}
	c := conn.(*net.UDPConn)
	if !shared {
		return c, nil
	}
	if err := takeOver(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Addrs returns the addresses, in the order of Listen.
func (s *Sockets) Addrs() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range s.tcp {
		addrs = append(addrs, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return addrs
}

// Close closes the sockets. [Server.Run] does so as well.
func (s *Sockets) Close() {
	for _, c := range s.udp {
		c.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}

// stopReading ends all reads, now and later. Replies can still be sent.
func (s *Sockets) stopReading() {
	for _, c := range s.udp {
		c.stopReading()
	}
	for _, l := range s.tcp {
		l.SetDeadline(time.Unix(1, 0))
	}
}
