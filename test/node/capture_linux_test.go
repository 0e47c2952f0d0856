// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// capture collects the DNS queries that pass a network device of the machine. The kernel
// queues them before their delivery: when a lookup has returned, its queries are in the
// queue.
type capture struct{ fd int }

// capture collects what passes device until t ends.
func (m *machine) capture(t *testing.T, device string) capture {
	t.Helper()
	var c capture
	err := m.inside(func() error {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: link.Index})
	})
	if err != nil {
		t.Fatalf("capturing on %s: %v", device, err)
	}
	t.Cleanup(func() { unix.Close(c.fd) })
	return c
}

// ipv4 is the protocol in the byte order of the network.
var ipv4 = binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP))

// take returns the queries since the last call, as "SERVER NAME TYPE".
func (c capture) take(t *testing.T) []string {
	t.Helper()
	var list []string
	buf := make([]byte, 65536)
	for {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return list
		case err != nil:
			t.Fatal(err)
		}
		// The loopback device shows each packet twice: outgoing and incoming.
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if q, ok := parseQuery(buf[:n]); ok {
			list = append(list, q)
		}
	}
}

// parseQuery reads an IPv4 packet with a query to port 53.
func parseQuery(packet []byte) (string, bool) {
	const minIP, lenUDP = 20, 8
	if len(packet) < minIP || packet[9] != unix.IPPROTO_UDP {
		return "", false
	}
	head := int(packet[0]&15) * 4
	if len(packet) < head+lenUDP || binary.BigEndian.Uint16(packet[head+2:]) != 53 {
		return "", false
	}
	var m dns.Msg
	if m.Unpack(packet[head+lenUDP:]) != nil || m.Response || len(m.Question) != 1 {
		return "", false
	}
	to := netip.AddrFrom4([4]byte(packet[16:20]))
	return fmt.Sprintf("%s %s %s", to, m.Question[0].Name, dns.TypeToString[m.Question[0].Qtype]), true
}
