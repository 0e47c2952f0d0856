// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

// TestListen_NoIPv6: the manifest listens on the IPv6 wildcard address, which includes IPv4. On
// a kernel without IPv6 package net listens on 0.0.0.0. Other IPv6 addresses are an error.
func TestListen_NoIPv6(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.RemoveIPv6(t)
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("[::]:1053")})
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.Close()
	if got := sockets.Addrs()[0].String(); got != "0.0.0.0:1053" {
		t.Errorf("listening on %s, want 0.0.0.0:1053", got)
	}
	if s, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("[::1]:1053")}); !errors.Is(err, syscall.EAFNOSUPPORT) {
		t.Errorf("[::1]: got %v, %v, want EAFNOSUPPORT", s, err)
	}
}
