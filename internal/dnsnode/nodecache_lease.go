// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodenet"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// leaseInterval is the time between two probes of an address: three for a lease.
	leaseInterval = nodenet.LeaseTime / 3

	// settleTime is how long the server must answer after a pause before it gets queries again. It is longer than the
	// 5 s after which glibc repeats a query, so that a server that hangs again and again does not lose a query
	// twice. Failures that the pause itself has caused are no longer in the cache.
	settleTime = 6 * time.Second

	// fallbackPort is the port of the pods of the cluster DNS: those of CoreDNS listen on it, and ours.
	fallbackPort = 53

	// maxFallback bounds the servers of the fallback, and with them the rules in the kernel.
	maxFallback = 16
)

// A lease renews the lease of addresses on an idle node, and after a pause of the server. A probe passes the
// same sockets and the same readers as queries, so a server whose readers hang does not renew it. It also
// keeps the servers of the fallback up to date.
type lease struct {
	addrs    []netip.AddrPort
	service  fqdn.Name          // with the addresses of the servers; "": there is no fallback
	exchange dnsserver.Exchange // of the cluster DNS
	log      *slog.Logger

	pulse atomic.Pointer[pulse] // of the address that answered last; nil: none has yet

	lost    prometheus.Counter
	servers prometheus.Gauge
}

// A pulse tells when the server answers probes of an address.
type pulse struct {
	last    time.Time // of a reply
	resumed time.Time // of the first reply after a pause
}

// steady reports whether the server answers, and has for settleTime.
func (p pulse) steady() bool {
	return time.Since(p.last) < leaseInterval*3/2 && time.Since(p.resumed) >= settleTime
}

// paused reports whether no address has a steady pulse, see dnsserver.Config.Paused. Without a lease it returns false.
func (l *lease) paused() bool {
	p := l.pulse.Load()
	return p != nil && !p.steady()
}

func newLease(service fqdn.Name, exchange dnsserver.Exchange, register prometheus.Registerer, log *slog.Logger) *lease {
	return &lease{
		service: service, exchange: exchange, log: log,
		lost: promauto.With(register).NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_nodecache_lease_lost_total",
			Help: "Times that the node cache did not answer its own probes at an address for longer than the lease.",
		}),
		servers: promauto.With(register).NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_nodecache_fallback_servers",
			Help: "Pods of the cluster DNS to which the kernel sends queries while the node cache does not answer.",
		}),
	}
}

// keep probes each address until ctx ends.
func (l *lease) keep(ctx context.Context) error {
	query := new(dns.Msg).SetQuestion("lease"+probeZone, dns.TypeHINFO)
	query.RecursionDesired = false
	packet, err := query.Pack()
	if err != nil {
		return err
	}
	var probes sync.WaitGroup
	for _, addr := range l.addrs {
		probes.Go(func() { l.keepAddress(ctx, addr, packet) })
	}
	probes.Wait()
	return nil
}

// keepAddress probes an address until ctx ends, and logs when the lease has ended. A probe that follows a reply grants
// the lease again, also if it gets no reply itself: the lease of a server that hangs while this task runs lasts up to
// leaseInterval longer.
func (l *lease) keepAddress(ctx context.Context, addr netip.AddrPort, packet []byte) {
	p := pulse{last: time.Now()} // guard.run has had a reply
	for ctx.Err() == nil {
		grant := p.steady()
		conn, err := nodenet.ProbeDialer(grant).DialContext(ctx, "udp", addr.String())
		if err != nil {
			daemon.Sleep(ctx, leaseInterval)
			continue
		}
		// A socket serves for a minute: the address may have been away.
		for end := time.Now().Add(time.Minute); ctx.Err() == nil && time.Now().Before(end) && grant == p.steady(); {
			sent := time.Now()
			if exchangeProbe(conn, packet) {
				now := time.Now()
				if gap := now.Sub(p.last); gap > nodenet.LeaseTime {
					p.resumed = now
					l.lost.Inc()
					l.log.Warn("node cache did not answer, the kernel sent queries to the cluster DNS",
						"address", addr, "duration", gap)
				}
				p.last = now
				l.pulse.Store(&pulse{p.last, p.resumed})
			}
			daemon.Sleep(ctx, leaseInterval-time.Since(sent))
		}
		conn.Close()
	}
}

// exchangeProbe reports whether a reply arrives within leaseInterval: that to this probe or an earlier one.
func exchangeProbe(conn net.Conn, packet []byte) bool {
	if _, err := conn.Write(packet); err != nil {
		return false
	}
	var reply [512]byte
	if err := conn.SetReadDeadline(time.Now().Add(leaseInterval)); err != nil {
		return false
	}
	_, err := conn.Read(reply[:])
	return err == nil
}

// followServers writes the servers of the fallback into the kernel until ctx ends. They stay there when the
// process ends. Without a fallback it removes what an earlier configuration has written.
func (l *lease) followServers(ctx context.Context) error {
	if l.service == "" {
		if err := nodenet.SetFallback(nil, nil); err != nil {
			l.log.Warn("cannot remove the fallback to the cluster DNS", "error", err)
		}
		return nil
	}
	var before []netip.AddrPort
	failing := false // logged once
	for ctx.Err() == nil {
		addrs, servers, err := l.lookup(ctx)
		if err == nil {
			err = nodenet.SetFallback(addrs, servers) // each time: others may remove it
		}
		if err == nil {
			if all := slices.Concat(addrs, servers); !slices.Equal(all, before) {
				before = all
				l.servers.Set(float64(len(servers)))
				l.log.Info("fallback to the cluster DNS", "addresses", addrs, "servers", servers)
			}
			failing = false
			daemon.Sleep(ctx, clusterInterval)
			continue
		}
		if !failing && ctx.Err() == nil {
			l.log.Warn("cannot update the fallback to the cluster DNS, keeping the previous one",
				"service", l.service.String(), "error", err)
		}
		failing = true
		daemon.Sleep(ctx, clusterRetry)
	}
	return nil
}

// lookup returns the addresses that need a fallback, and its servers.
func (l *lease) lookup(ctx context.Context) (addrs, servers []netip.AddrPort, err error) {
	for _, addr := range l.addrs {
		translated, err := l.isService(ctx, addr.Addr())
		if err != nil {
			return nil, nil, err
		}
		if !translated {
			addrs = append(addrs, addr)
		}
	}
	found, err := lookupAddrs(ctx, l.exchange, l.service)
	if err != nil {
		return nil, nil, err
	}
	for _, addr := range found {
		servers = append(servers, netip.AddrPortFrom(addr, fallbackPort))
	}
	slices.SortFunc(servers, netip.AddrPort.Compare)
	return addrs, servers[:min(len(servers), maxFallback)], nil
}

// isService reports whether an address is that of a Service, which kube-proxy translates: it has a PTR record.
func (l *lease) isService(ctx context.Context, addr netip.Addr) (bool, error) {
	if addr.IsLinkLocalUnicast() {
		return false, nil
	}
	reverse, err := dns.ReverseAddr(addr.Unmap().String())
	if err != nil {
		return false, err
	}
	records, err := queryRecords(ctx, l.exchange, reverse, dns.TypePTR)
	return len(records) > 0, err
}

// lookupAddrs returns the addresses of a name: none if it does not exist.
func lookupAddrs(ctx context.Context, exchange dnsserver.Exchange, name fqdn.Name) (addrs []netip.Addr, err error) {
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		records, err := queryRecords(ctx, exchange, name.String(), qtype)
		if err != nil {
			return nil, err
		}
		for _, rr := range records {
			var ip net.IP
			switch rr := rr.(type) {
			case *dns.A:
				ip = rr.A
			case *dns.AAAA:
				ip = rr.AAAA
			}
			if addr, ok := netip.AddrFromSlice(ip); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}

// queryRecords returns the records of a name: none if it does not exist.
func queryRecords(ctx context.Context, exchange dnsserver.Exchange, name string, qtype uint16) ([]dns.RR, error) {
	reply, err := exchange(ctx, new(dns.Msg).SetQuestion(name, qtype))
	switch {
	case err != nil:
		return nil, err
	case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return nil, fmt.Errorf("%s for %s", dns.RcodeToString[reply.Rcode], name)
	}
	return reply.Answer, nil
}
