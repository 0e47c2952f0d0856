// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const (
	// takeoverTimeout is how long a new instance tries to reach the cluster DNS before it
	// leaves the addresses to the running one. It is shorter than minReadySeconds in
	// deploy/node-cache, so that a rollout stops at an instance that does not reach it.
	takeoverTimeout = 5 * time.Second

	takeoverRetry = 200 * time.Millisecond
)

// checkTakeover returns an error if another instance listens on one of the addresses and this
// instance does not reach the cluster DNS. The other instance may reach it, and has cached
// replies.
func checkTakeover(ctx context.Context, addrs []netip.AddrPort, cluster *clusterCheck) error {
	addr, inUse := findInUse(addrs)
	if !inUse {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	for {
		err := cluster.query(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(takeoverRetry):
		case <-ctx.Done():
			return fmt.Errorf("not taking over %s: cluster DNS unreachable for %v: %w", addr, takeoverTimeout, err)
		}
	}
}

// findInUse returns the first address on which another process listens.
func findInUse(addrs []netip.AddrPort) (netip.AddrPort, bool) {
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
