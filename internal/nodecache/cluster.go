// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodenet"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// clusterInterval is the time between two queries that check the cluster DNS: 500
	// queries a second in a cluster of 5,000 nodes.
	clusterInterval = 10 * time.Second

	// clusterRetry is the time to the next query after a failed one. The first reply ends the
	// backoff of the server, and stale answers are then renewed.
	clusterRetry = time.Second
)

// A clusterCheck queries the cluster DNS for the SOA record of the cluster domain. Only this
// query decides about readiness: queries of pods may fail for other reasons, such as reverse
// names whose servers do not answer.
type clusterCheck struct {
	exchange dnsserver.Exchange // of the cluster DNS
	domain   fqdn.Name

	mu      sync.Mutex
	checked bool
	err     error // of the last query
}

// run sends a query every clusterInterval, and sooner after a failure, until ctx ends.
func (c *clusterCheck) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.query(ctx)
		if ctx.Err() != nil {
			break
		}
		c.mu.Lock()
		c.checked, c.err = true, err
		c.mu.Unlock()
		if err != nil {
			pause(ctx, clusterRetry)
		} else {
			pause(ctx, clusterInterval)
		}
	}
	return nil
}

// ready returns the error of the last query, or an error before the first one is complete.
func (c *clusterCheck) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.checked:
		return errors.New("no reply of the cluster DNS yet")
	case c.err != nil:
		return fmt.Errorf("no cluster DNS server answers: %w", c.err)
	}
	return nil
}

// query queries the SOA record of the cluster domain. It returns an error unless the rcode of the
// reply is NOERROR.
func (c *clusterCheck) query(ctx context.Context) error {
	reply, err := c.exchange(ctx, new(dns.Msg).SetQuestion(c.domain.String(), dns.TypeSOA))
	if err == nil && reply.Rcode != dns.RcodeSuccess {
		err = fmt.Errorf("%s for %s", dns.RcodeToString[reply.Rcode], c.domain)
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
func assignAddresses(c config.NodeCache, log *slog.Logger) (a addresses, err error) {
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
			return addresses{}, joinErrors(a.iface.Addrs, failed)
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
		return nil, fmt.Errorf("%w: set --interface, or an address of the node", err)
	case err != nil:
		return nil, daemon.SocketHint(err, "listen")
	}
	return sockets, nil
}

// joinErrors joins the errors of addresses, in the order of the addresses.
func joinErrors(addrs []netip.Addr, failed map[netip.Addr]error) error {
	var list []error
	for _, addr := range addrs {
		list = append(list, failed[addr])
	}
	return errors.Join(list...)
}
