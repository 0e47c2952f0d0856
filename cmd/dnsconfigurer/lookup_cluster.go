// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube/names"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/libc"
)

// standInTTL is that of the cluster's records, in seconds, as of the command dns.
const standInTTL = 5

// standIn is the cluster DNS in this process: our own server, with the names of
// manifests. It stands for the nameservers that are the cluster's, and for no other.
//
// What the server would forward goes to upstream servers, if some are given. If none
// are, nobody is asked: a lookup sends nothing to where it was not told to. The library
// is told that the name does not exist, so that it goes on searching; judge says what
// that is worth.
type standIn struct {
	zone     *zone.Zone
	domain   fqdn.Name
	addrs    []netip.Addr     // of the cluster DNS, as pods know it
	upstream *upstream.Client // nil: there is none

	turn    sync.Mutex            // one query after the other, so that what is missed is known to be missed for it
	mu      sync.Mutex            // guards what follows
	missed  []string              // names that upstream would have been asked for, for the query whose turn it is
	unasked map[*dns.Msg][]string // by reply: those that it lacks
}

// newStandIn returns a cluster DNS for n's pods without any names.
func newStandIn(n node, servers []upstream.Server) (*standIn, error) {
	s := &standIn{addrs: slices.Clone(n.ClusterDNS), unasked: map[*dns.Msg][]string{}}
	if a := n.Autopath.NodeCache; a.IsValid() { // whoever asks it asks the cluster DNS
		s.addrs = append(s.addrs, a)
	}
	var err error
	if s.domain, err = fqdn.ParseName(n.ClusterDomain); err != nil || s.domain == fqdn.Root {
		return nil, errors.New("without a cluster domain there is no cluster DNS: give --cluster-domain, or --server")
	}
	if s.zone, err = zone.New(zone.Config{Domain: s.domain, TTL: standInTTL, Pods: zone.PodsInsecure, Local: s.addrs}); err != nil {
		return nil, err
	}
	if len(servers) > 0 {
		if s.upstream, err = upstream.New(upstream.Config{Servers: servers}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// fill gives it the names of m, where objects that name no namespace are in namespace.
// The error is about what had to be left out.
func (s *standIn) fill(m kube.Manifest, namespace string) error {
	of, err := names.Of(m, namespace)
	return errors.Join(err, names.Fill(s.zone, s.domain, of))
}

// play has q asked by p while the server runs.
func (s *standIn) play(ctx context.Context, q lookupQuestion, p libc.Player) (played, error) {
	store, err := cache.New(cache.Config{})
	if err != nil {
		return played{}, err
	}
	config := dnsserver.Config{Zone: s.zone, Domain: s.domain, TTL: standInTTL, Cache: store, Upstream: s.miss}
	var tasks []func(context.Context) error
	if s.upstream != nil {
		config.Upstream = s.upstream.Exchange
		tasks = append(tasks, s.upstream.Run)
	}
	server, err := dnsserver.New(config)
	if err != nil {
		return played{}, err
	}
	sockets, err := dnsserver.Listen(ctx, []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)})
	if err != nil {
		return played{}, fmt.Errorf("a DNS server for this lookup: %w", err)
	}
	at := sockets.Addrs()[0]
	// musl takes the first answer of any server, and those of the cluster are near.
	outrun := p.Library == libc.Musl && slices.ContainsFunc(p.Resolver.Nameservers, s.is)
	p.Network = libc.Network{UDP: s.exchange("udp", at, outrun), TCP: s.exchange("tcp", at, outrun)}

	ctx, stop := context.WithCancel(ctx)
	var result libc.Result
	err = together(ctx, append(tasks,
		func(ctx context.Context) error { return server.Run(ctx, sockets) },
		func(ctx context.Context) (err error) {
			defer stop()
			result, err = q.ask(ctx, p)
			return err
		}))
	return s.judge(q.name, result), err
}

// is reports whether a nameserver is the cluster's.
func (s *standIn) is(server netip.Addr) bool { return slices.Contains(s.addrs, server) }

// exchange returns how queries get to the server at an address. Those to other
// nameservers go nowhere; outrun are those that another answer comes before.
func (s *standIn) exchange(network string, at netip.AddrPort, outrun bool) libc.Exchange {
	return func(ctx context.Context, server netip.Addr, query *dns.Msg) (*dns.Msg, error) {
		switch {
		case !s.is(server) && outrun:
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case !s.is(server):
			return s.lacks(new(dns.Msg).SetRcode(query, dns.RcodeNameError), []string{query.Question[0].Name}), nil
		case s.upstream != nil:
			return exchange(ctx, network, at, query)
		}
		s.turn.Lock()
		defer s.turn.Unlock()
		reply, err := exchange(ctx, network, at, query)
		missed := s.taken()
		if reply == nil || missed == nil {
			return reply, err
		}
		if len(reply.Answer) == 0 { // otherwise there is an alias, whose target is not known
			reply = new(dns.Msg).SetRcode(query, dns.RcodeNameError)
		}
		return s.lacks(reply, missed), nil
	}
}

// miss is upstream where there is none. Its reply says nothing, which the server puts
// behind the alias that leads there, and does not keep.
func (s *standIn) miss(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = append(s.missed, query.Question[0].Name)
	return new(dns.Msg).SetReply(query), nil
}

// taken returns what was missed since it was called last.
func (s *standIn) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := s.missed
	s.missed = nil
	return missed
}

// lacks notes which names a reply lacks.
func (s *standIn) lacks(reply *dns.Msg, names []string) *dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unasked[reply] = names
	return reply
}

// played is a lookup and what is known of its result. The zero values beside the
// Result say that every query was asked.
type played struct {
	libc.Result

	notAsked []string // names that nobody was asked for, in order
	absent   []string // those of them that were taken to be absent

	// open is the one of them on which the result depends; "": none. If it is the name
	// that is looked up, and does not exist, the library goes on to ifAbsent queries.
	open     string
	ifAbsent int
}

// errNotAsked is why there is no reply to a query that went nowhere.
var errNotAsked = errors.New("not asked")

// judge says what a result is worth. The library was told that names which nobody was
// asked for do not exist. Of those that it made with search domains this is likely; of
// the name itself, if nothing else was found for it, nobody knows: there the lookup ends.
func (s *standIn) judge(name string, r libc.Result) played {
	missed := make([][]string, len(r.Queries))
	ends, open := -1, "" // at which query, for want of which name
	itself := func(missed string) bool { return strings.EqualFold(missed, dns.Fqdn(name)) }
	for i := range r.Queries {
		q := &r.Queries[i]
		missed[i] = s.unasked[q.Reply]
		switch {
		case errors.Is(q.Err, libc.ErrOvertaken) && !s.is(q.Server): // the cluster's has answered
			q.Err, q.Took = errNotAsked, 0
		case missed[i] == nil:
		case q.Reply != nil && len(q.Reply.Answer) > 0: // an alias, which is something found
			ends, open = i, missed[i][len(missed[i])-1]
		default:
			q.Reply, q.Err, q.Took = nil, errNotAsked, 0
			if ends < 0 && r.Error != "" && slices.ContainsFunc(missed[i], itself) {
				ends, open = i, dns.Fqdn(name)
			}
		}
	}
	p := played{Result: r, open: open, ifAbsent: len(r.Queries)}
	if ends >= 0 { // the query for the other family goes with it
		for ends+1 < len(r.Queries) && r.Queries[ends+1].Name == r.Queries[ends].Name {
			ends++
		}
		p.Queries, missed = r.Queries[:ends+1], missed[:ends+1]
	}
	for _, n := range slices.Concat(missed...) {
		p.notAsked = appendNew(p.notAsked, n)
		if !strings.EqualFold(n, open) {
			p.absent = appendNew(p.absent, n)
		}
	}
	return p
}

// synthetic returns the addresses of the cluster's names that no cluster has assigned.
func (p *played) synthetic() (list []netip.Addr) {
	for _, q := range p.Queries {
		if q.Reply == nil || !q.Reply.Authoritative {
			continue
		}
		for _, rr := range q.Reply.Answer {
			if a, ok := addressOf(rr); ok && names.Synthetic(a) {
				list = appendNew(list, a)
			}
		}
	}
	return list
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// addressOf returns the address in an A or AAAA record.
func addressOf(rr dns.RR) (netip.Addr, bool) {
	var ip net.IP
	switch rr := rr.(type) {
	case *dns.A:
		ip = rr.A
	case *dns.AAAA:
		ip = rr.AAAA
	}
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}
