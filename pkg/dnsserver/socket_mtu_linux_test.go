// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListen_IgnoresPathMTU: no UDP socket uses path MTU discovery (RFC 9715 section 3.1), neither
// of the cluster DNS nor of a node cache.
func TestListen_IgnoresPathMTU(t *testing.T) {
	for name, listen := range map[string]func(context.Context, []netip.AddrPort) (*Sockets, error){
		"Listen": Listen, "ListenShared": ListenShared} {
		for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
			sockets, err := listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(address)})
			if err != nil {
				t.Fatal(err)
			}
			defer sockets.Close()
			raw, err := sockets.udp[0].SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			err = withDescriptor(raw, func(fd int) error {
				got, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER)
				if netip.MustParseAddrPort(address).Addr().Is6() && err == nil {
					got, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER)
				}
				if got != unix.IP_PMTUDISC_OMIT { // the same number as IPV6_PMTUDISC_OMIT
					t.Errorf("%s(%s): path MTU discovery is %d", name, address, got)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
