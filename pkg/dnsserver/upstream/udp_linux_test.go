// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// The sockets of queries ignore path MTUs, in both families.
func TestDialUDP_PathMTU(t *testing.T) {
	for _, tt := range []struct {
		address               string
		level, option, expect int
	}{
		{"127.0.0.1:53", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT},
		{"[::1]:53", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT},
	} {
		l, err := net.ListenPacket("udp", tt.address[:len(tt.address)-2]+"0")
		if err != nil {
			t.Logf("no address %s on this machine", tt.address)
			continue
		}
		defer l.Close()
		c := must.Get(dialUDP(t.Context(), l.LocalAddr().String()))(t)
		defer c.Close()
		raw := must.Get(c.SyscallConn())(t)
		if err := raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), tt.level, tt.option); err != nil || got != tt.expect {
				t.Errorf("%s: got %d, %v, want %d", tt.address, got, err, tt.expect)
			}
		}); err != nil {
			t.Error(err)
		}
	}
}
