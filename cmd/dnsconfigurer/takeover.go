// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// takeOverTime is how long a new instance tries to reach the cluster DNS before it
	// leaves the addresses to the one that has them. minReadySeconds of deploy/node-cache
	// is longer: until then the pod does not count as available.
	takeOverTime = 5 * time.Second

	takeOverRetry = 200 * time.Millisecond
)

// fitToTakeOver says why an instance must not take its addresses from another one: it does
// not reach the cluster DNS, as the other one may, which has answers besides. Addresses
// that nobody has are its own in any case.
func fitToTakeOver(ctx context.Context, addrs []netip.AddrPort, cluster dnsserver.Exchange, domain fqdn.Name) error {
	at, taken := takenOf(addrs)
	if !taken {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	query := new(dns.Msg).SetQuestion(domain.String(), dns.TypeSOA)
	for {
		reply, err := cluster(ctx, query)
		if err == nil && reply.Rcode == dns.RcodeSuccess {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it says %s of %s", dns.RcodeToString[reply.Rcode], domain)
		}
		select {
		case <-time.After(takeOverRetry):
		case <-ctx.Done():
			return fmt.Errorf("%s is left to the server that has it, for the cluster DNS does not answer this one in %v: %w", at, takeOverTime, err)
		}
	}
}

// takenOf returns an address that another server has.
func takenOf(addrs []netip.AddrPort) (netip.AddrPort, bool) {
	for _, addr := range addrs {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
		if errors.Is(err, syscall.EADDRINUSE) {
			return addr, true
		}
		if err == nil {
			c.Close()
		}
	}
	return netip.AddrPort{}, false
}
