// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodenet"
)

const (
	// guardInterval is the time between two checks of the addresses: that of NodeLocal
	// DNSCache. Changes that the kernel reports are handled at once.
	guardInterval = 60 * time.Second

	// guardRetry is the time between two checks while one fails.
	guardRetry = 5 * time.Second

	// guardPause is the least time between two checks of the interface. The kernel reports
	// changes of all interfaces, dozens for each pod that starts. Another program that removes
	// an address again and again must not keep a processor busy.
	guardPause = time.Second
)

// A guard makes queries to the addresses arrive at this process, and checks that they do. It
// restores the interface and its addresses, and owns the rules that keep kube-proxy from
// translating the addresses.
type guard struct {
	iface *nodenet.Interface // nil: the addresses are not assigned by the node cache
	addrs []netip.AddrPort
	rules *nodenet.Rules // nil: none are installed
	lease *lease         // nil: the rules have none
	log   *slog.Logger

	dialer *net.Dialer // for probes, which pass the rules

	restored  *prometheus.CounterVec
	reachable *prometheus.GaugeVec

	changed  chan struct{} // capacity one: maintainInterface checks the interface at once
	probeNow chan struct{} // capacity one: checkPeriodically probes the addresses at once

	mu        sync.Mutex
	checked   bool     // unreached is known
	missing   problems // of the last restore
	unreached problems // of the last check
}

// problems are the addresses with a problem, each with its error.
type problems map[netip.AddrPort]error

// newGuard returns a guard for the addresses of a server. It does not check the wildcard
// address, which is not one address.
func newGuard(iface *nodenet.Interface, addrs []netip.AddrPort, register prometheus.Registerer, log *slog.Logger) *guard {
	return &guard{
		iface: iface, log: log, dialer: &net.Dialer{}, changed: make(chan struct{}, 1), probeNow: make(chan struct{}, 1),
		addrs: slices.DeleteFunc(slices.Clone(addrs), func(a netip.AddrPort) bool { return a.Addr().IsUnspecified() }),
		restored: daemon.NewCounterVec(register, "dnsconfigurer_nodecache_restored_total",
			"Interfaces and addresses of the node cache that were missing and are restored, by kind.", "kind",
			nodenet.KindInterface, nodenet.KindState, nodenet.KindAddress),
		reachable: promauto.With(register).NewGaugeVec(prometheus.GaugeOpts{
			Name: "dnsconfigurer_nodecache_reachable",
			Help: "1 if queries to the address reached the node cache at the last check, 0 if not.",
		}, []string{"address"}),
	}
}

// installRules installs the rules for all addresses but those of the loopback, which proxies do
// not translate. An address that may be that of a Service has a lease, since kube-proxy translates it when the
// lease ends; so has each address if there is a fallback. Without rules installRules returns an error if an
// address may be that of a Service. For a link-local address only a pod with hostPort 53 is translated, which
// is rare.
func (g *guard) installRules(mode string, fallback *lease) (err error) {
	var addrs []nodenet.Address
	var services []netip.AddrPort
	for _, a := range g.addrs {
		switch {
		case a.Addr().IsLoopback():
			continue
		case !a.Addr().IsLinkLocalUnicast():
			services = append(services, a)
		}
		addrs = append(addrs, nodenet.Address{AddrPort: a, Leased: fallback.service != "" || !a.Addr().IsLinkLocalUnicast()})
	}
	if len(addrs) == 0 || mode == "disabled" {
		return nil
	}
	if g.rules, err = nodenet.Install(addrs); err == nil {
		g.lease, g.dialer = fallback, nodenet.ProbeDialer(false)
		for _, a := range addrs {
			if a.Leased {
				g.lease.addrs = append(g.lease.addrs, a.AddrPort)
			}
		}
		return nil
	}
	if len(services) > 0 {
		return fmt.Errorf("cannot keep kube-proxy from translating %v (set notrack to disabled if no proxy "+
			"translates them): %w", services, err)
	}
	g.log.Warn("cannot keep kube-proxy from translating addresses, continuing", "error", err)
	return nil
}

// run checks the addresses until ctx ends. It returns an error if another server answers the first
// probes. If no server answers them it continues, unready: a firewall may block queries of the
// host, and let those of pods through.
//
// At the end run ends the leases before the server has drained, so that new queries reach the
// cluster DNS. A successor has its own rules.
func (g *guard) run(ctx context.Context) error {
	if g.rules != nil {
		defer g.rules.Revoke()
	}
	if err := g.check(ctx); errors.Is(err, errOtherServer) {
		return err
	}
	tasks := []daemon.Task{g.checkPeriodically}
	if g.lease != nil {
		tasks = append(tasks, g.lease.keep, g.lease.followServers)
	}
	if g.iface != nil {
		tasks = append(tasks, g.watchInterface, g.maintainInterface)
	}
	return daemon.RunAll(ctx, tasks...)
}

// keepRules removes the rules when ctx ends.
func (g *guard) keepRules(ctx context.Context) error {
	<-ctx.Done()
	if g.rules != nil {
		g.rules.Remove()
	}
	return nil
}

// watchInterface notifies maintainInterface of changes of interfaces and addresses until ctx ends.
func (g *guard) watchInterface(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := g.iface.Watch(ctx, func() { daemon.Notify(g.changed) }); err != nil {
			g.log.Warn("cannot watch the interface, checking it periodically", "error", err, "interval", guardInterval)
			daemon.Sleep(ctx, guardInterval)
		}
	}
	return nil
}

// maintainInterface restores the interface and its addresses until ctx ends: when the kernel reports a
// change, and periodically. Probes, which take seconds, do not delay it.
func (g *guard) maintainInterface(ctx context.Context) error {
	for ctx.Err() == nil {
		g.restore()
		daemon.Sleep(ctx, guardPause)
		select {
		case <-ctx.Done():
		case <-g.changed:
		case <-time.After(g.untilCheck()):
		}
	}
	return nil
}

// checkPeriodically probes the addresses until ctx ends.
func (g *guard) checkPeriodically(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.probeNow:
		case <-time.After(g.untilCheck()):
		}
		_ = g.check(ctx) // logged, and in the readiness
	}
}

// untilCheck returns the time to the next check.
func (g *guard) untilCheck() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.missing)+len(g.unreached) > 0 {
		return guardRetry
	}
	return guardInterval
}

// restore assigns missing addresses.
func (g *guard) restore() {
	restored, failed := g.iface.Ensure()
	for _, r := range restored {
		g.restored.WithLabelValues(string(r.Kind)).Inc()
		g.log.Warn("interface of the node cache restored", "restored", r.String())
	}
	missing := problems{}
	for _, addr := range g.addrs {
		if err := failed[addr.Addr()]; err != nil {
			missing[addr] = err
		}
	}
	g.update(func() { g.missing = missing })
	if len(restored) > 0 {
		daemon.Notify(g.probeNow)
	}
}

// check probes every address, over UDP and TCP.
func (g *guard) check(ctx context.Context) error {
	var mu sync.Mutex
	unreached := problems{}
	var probes sync.WaitGroup
	for _, addr := range g.addrs {
		probes.Go(func() {
			err := probe(ctx, g.dialer, "udp", addr)
			if err == nil {
				err = probe(ctx, g.dialer, "tcp", addr)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				unreached[addr] = err
			}
		})
	}
	probes.Wait()
	if ctx.Err() != nil {
		return nil // the probes were interrupted
	}
	g.update(func() { g.unreached, g.checked = unreached, true })
	return joinErrors(unreached, netip.AddrPort.Compare)
}

// update calls change with g.mu held, and logs the addresses whose problem differs after it.
func (g *guard) update(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.problemsLocked()
	change()
	after := g.problemsLocked()
	for _, addr := range g.addrs {
		reachable := 1.0
		switch was, is := before[addr], after[addr]; {
		case is != nil:
			reachable = 0
			if was == nil || was.Error() != is.Error() {
				g.log.Error("queries do not reach the node cache", "address", addr, "error", is)
			}
		case was != nil:
			g.log.Info("queries reach the node cache again", "address", addr)
		}
		g.reachable.WithLabelValues(addr.String()).Set(reachable)
	}
}

// problemsLocked returns at most one problem for each address. An address that is missing is not
// reached either: the first is the cause.
func (g *guard) problemsLocked() problems {
	all := problems{}
	maps.Copy(all, g.unreached)
	maps.Copy(all, g.missing)
	return all
}

// ready returns an error if queries to an address do not arrive. details are the addresses without a
// problem.
func (g *guard) ready() (details []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.checked {
		return nil, errors.New("the addresses are not checked yet")
	}
	all := g.problemsLocked()
	for _, addr := range g.addrs {
		if all[addr] == nil {
			details = append(details, fmt.Sprintf("address %s: ok", addr))
		}
	}
	return details, joinErrors(all, netip.AddrPort.Compare)
}

// joinErrors joins the errors of addresses in the order of the addresses.
func joinErrors[A comparable](failed map[A]error, compare func(a, b A) int) error {
	var list []error
	for _, addr := range slices.SortedFunc(maps.Keys(failed), compare) {
		list = append(list, failed[addr])
	}
	return errors.Join(list...)
}
