// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
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
	return listen(ctx, addrs, nil)
}

// ListenShared is Listen for a server that takes over from another one with the same
// addresses, whose sockets were opened in this way, by the same user. All new packets and
// connections come to these sockets as soon as they are open, so that none is lost when
// the other server answers what it has and ends. There is room for two at a time: of three
// it is not said which one gets them.
func ListenShared(ctx context.Context, addrs []netip.AddrPort) (*Sockets, error) {
	s, err := listen(ctx, addrs, share)
	if err != nil {
		return nil, err
	}
	for i := range s.udp {
		if err := errors.Join(takeOver(s.udp[i]), takeOver(s.tcp[i])); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// ListenSharedTCP opens a TCP socket as ListenShared does, for what else such a server has.
func ListenSharedTCP(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listenTCP(ctx, addr, share)
	if err != nil {
		return nil, err
	}
	if err := takeOver(l); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// A control prepares a socket that has no address yet: that of a [net.ListenConfig].
type control = func(network, address string, c syscall.RawConn) error

func listen(ctx context.Context, addrs []netip.AddrPort, each control) (*Sockets, error) {
	if len(addrs) == 0 {
		return nil, errors.New("no address to listen on")
	}
	s := &Sockets{}
	for _, addr := range addrs {
		if err := s.listen(ctx, addr, each); err != nil {
			s.Close()
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
	}
	return s, nil
}

// portTries is how often the kernel is asked for a port, when it may be any: it gives one
// that is free for TCP, which another process may have for UDP.
const portTries = 10

func (s *Sockets) listen(ctx context.Context, addr netip.AddrPort, each control) error {
	for tries := 1; ; tries++ {
		l, err := listenTCP(ctx, addr.String(), each)
		if err != nil {
			return err
		}
		udp, err := listenUDP(ctx, netip.AddrPortFrom(addr.Addr(), l.Addr().(*net.TCPAddr).AddrPort().Port()), each)
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

func listenTCP(ctx context.Context, addr string, each control) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: each}
	config.SetMultipathTCP(false) // DNS has no use for it, and its sockets cannot be shared
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
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
