// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodenet"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// ownTTL is the TTL in seconds of records that the node cache itself has.
const ownTTL = 5

// revokeTime is how long the node cache answers at its end while its lease is revoked, which takes a probe's time.
const revokeTime = 5 * leaseInterval

// RunNodeCache runs the DNS cache of a node with configuration c until ctx ends, and then returns nil. It
// takes over the addresses from a previous instance only if it reaches the cluster DNS itself.
func RunNodeCache(ctx context.Context, p daemon.Process, source *config.Source[NodeCacheConfig], c NodeCacheConfig) error {
	var server *server
	cluster := &clusterCheck{domain: c.Domain, exchange: func(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
		return server.cluster().Exchange(ctx, query) // a reload replaces the client
	}}
	lease := newLease(c.Fallback, cluster.exchange, p.Metrics, p.Log)
	server, err := newServer(dnsserver.Config{
		Domain: c.Domain, TTL: ownTTL, Autopath: c.Autopath, LocalNames: true, Chaos: c.Chaos, DNS64Prefix: c.DNS64Prefix,
		AnswerProbe: answerProbe, Paused: lease.paused, Limits: c.ServerLimits, Statistics: c.Statistics, Lameduck: revokeTime,
	}, p.Metrics, p.Log)
	if err != nil {
		return err
	}
	open := func(ctx context.Context, group *daemon.Group) (*dnsserver.Sockets, error) {
		if err := checkIPVS(c.Addrs); err != nil {
			return nil, err
		}
		addrs, err := assignAddresses(c, p.Log)
		if err != nil {
			return nil, err
		}
		if err := checkTakeover(ctx, addrs.listen, cluster); err != nil {
			return nil, err
		}
		sockets, err := addrs.open(ctx)
		if err != nil {
			return nil, err
		}
		guard := newGuard(addrs.iface, sockets.Addrs(), p.Metrics, p.Log)
		if err := guard.installRules(c.Notrack, lease); err != nil {
			sockets.Close()
			return nil, err
		}
		http := daemon.HTTP{Process: p, Clients: func() any { return server.Clients() }, Ready: func() ([]string, error) {
			details, err := guard.ready()
			details = slices.Concat(addrs.omitted, details, clusterStatus(server.cluster()))
			return details, errors.Join(err, cluster.ready())
		}}
		// The port is shared, too: like queries, probes get to the new instance. So it is closed at once
		// when this one ends.
		group.Last = append(group.Last, guard.keepRules)
		group.Tasks = append(group.Tasks, guard.run, cluster.run, http.KeepServing(c.HTTP, dnsserver.ListenSharedTCP))
		return sockets, nil
	}
	return run(ctx, p, source, c, server, open, func(next NodeCacheConfig) resolver { return next.resolver })
}

// checkIPVS returns an error if kube-proxy has assigned an address to its interface of the mode ipvs: IPVS takes the
// packets to it, tracked or not.
func checkIPVS(listen []netip.AddrPort) error {
	iface, err := net.InterfaceByName("kube-ipvs0")
	if err != nil {
		return nil
	}
	assigned, err := iface.Addrs()
	for _, a := range assigned {
		prefix, _ := netip.ParsePrefix(a.String())
		if slices.ContainsFunc(listen, func(l netip.AddrPort) bool { return l.Addr() == prefix.Addr() }) {
			return fmt.Errorf("%s is an address of kube-ipvs0: kube-proxy in mode ipvs translates it: listen on 169.254.20.10, "+
				"or use mode nftables", prefix.Addr())
		}
	}
	return err
}

// addresses are the addresses of a node cache.
type addresses struct {
	listen  []netip.AddrPort
	iface   *nodenet.Interface // the interface with these addresses; nil: none is configured
	omitted []string           // details for readiness: addresses of a family that the kernel has disabled
}

// assignAddresses assigns the addresses to the interface of c, if it has one. An address of a
// family that the kernel has disabled is omitted as long as another one remains.
func assignAddresses(c NodeCacheConfig, log *slog.Logger) (a addresses, err error) {
	if c.Interface == "" {
		return addresses{listen: c.Addrs}, nil
	}
	a.iface = &nodenet.Interface{Name: c.Interface}
	for _, l := range c.Addrs {
		if !slices.Contains(a.iface.Addrs, l.Addr()) { // it may have several ports
			a.iface.Addrs = append(a.iface.Addrs, l.Addr())
		}
	}
	_, failed := a.iface.Ensure()
	for _, err := range failed {
		if !errors.Is(err, nodenet.ErrFamilyDisabled) || len(failed) == len(a.iface.Addrs) {
			return addresses{}, joinErrors(failed, netip.Addr.Compare)
		}
	}
	a.iface.Addrs = slices.DeleteFunc(a.iface.Addrs, func(addr netip.Addr) bool { return failed[addr] != nil })
	for _, l := range c.Addrs {
		if err := failed[l.Addr()]; err != nil {
			log.Warn("address omitted", "address", l, "error", err)
			a.omitted = append(a.omitted, fmt.Sprintf("address %s: omitted: %v", l, err))
			continue
		}
		a.listen = append(a.listen, l)
	}
	return a, nil
}

// open opens the sockets of the addresses. A previous instance may have them open, too.
func (a addresses) open(ctx context.Context) (*dnsserver.Sockets, error) {
	sockets, err := dnsserver.ListenShared(ctx, a.listen)
	switch {
	case a.iface == nil && errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w: set interface in the configuration file, or an address of the node", err)
	case err != nil:
		return nil, daemon.SocketHint(err, "listen")
	}
	return sockets, nil
}

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
	i := slices.IndexFunc(addrs, isInUse)
	if i < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	for {
		err := cluster.query(ctx)
		if err == nil {
			return nil
		}
		if daemon.Sleep(ctx, takeoverRetry); ctx.Err() != nil {
			return fmt.Errorf("not taking over %s: cluster DNS unreachable for %v: %w", addrs[i], takeoverTimeout, err)
		}
	}
}

// isInUse reports whether another process listens on an address.
func isInUse(addr netip.AddrPort) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}
