// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
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
	zone         *zone.Zone
	search       autopath.Zone
	hostSuffixes []fqdn.Name
	addrs        []netip.Addr      // of the cluster DNS, as pods know it
	upstream     []upstream.Server // empty: there is none

	turn    sync.Mutex                  // one query after the other, so that what is missed is known to be missed for it
	mu      sync.Mutex                  // guards what follows
	asked   []dns.Question              // of upstream, or what it would have been asked for the query whose turn it is
	unasked map[*dns.Msg][]dns.Question // by reply: those that it lacks
}

// newStandIn returns a cluster DNS for n's pods without any names. It searches the
// domains of host below the autopath suffix.
func newStandIn(n config.Node, host resolvconf.File, servers []upstream.Server) (*standIn, error) {
	s := &standIn{
		addrs: slices.Clone(n.ClusterDNS), hostSuffixes: hostSuffixesOf(host),
		upstream: servers, unasked: map[*dns.Msg][]dns.Question{},
	}
	if a := n.Autopath.NodeCache; a.IsValid() { // whoever asks it asks the cluster DNS
		s.addrs = appendNew(s.addrs, a)
	}
	domain, err := fqdn.ParseName(n.ClusterDomain)
	if err != nil || domain == fqdn.Root {
		return nil, errors.New("without a cluster domain there is no cluster DNS: give --cluster-domain, or --server")
	}
	suffix, err := fqdn.ParseName(cmp.Or(n.Autopath.Suffix, policy.DefaultAutopathSuffix))
	if err != nil {
		return nil, fmt.Errorf("autopath suffix %q %w", n.Autopath.Suffix, err)
	}
	if s.search, err = autopath.NewZone(suffix, domain); err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	if s.zone, err = zone.New(zone.Config{Domain: domain, Pods: zone.PodsInsecure, Local: s.addrs}); err != nil {
		return nil, err
	}
	return s, nil
}

// hostSuffixesOf are the search domains of a host's file, as many as a search list has
// room for. In a cluster they are of the cluster DNS's configuration, which knows no host.
func hostSuffixesOf(host resolvconf.File) []fqdn.Name {
	list := forward.HostSuffixes(hostresolv.Snapshot{File: host}, slog.New(slog.DiscardHandler))
	return list[:min(len(list), dnsserver.MaxHostSuffixes)]
}

// fill gives it the names of m, where objects that name no namespace are in namespace.
// The error is about what had to be left out.
func (s *standIn) fill(m kube.Manifest, namespace string) error {
	of, err := zonesync.DecodeManifest(m, namespace)
	return errors.Join(err, zonesync.Load(s.zone, s.search.Domain, of))
}

// play has q asked by p while the server runs. Nothing is left of earlier plays.
func (s *standIn) play(ctx context.Context, q lookupQuestion, p libc.Simulator) (played, error) {
	store, err := cache.New(cache.Config{})
	if err != nil {
		return played{}, err
	}
	config := dnsserver.Config{
		Zone: s.zone, Domain: s.search.Domain, TTL: standInTTL, Cache: store, Upstream: s.miss,
		Autopath: dnsserver.Autopath{Suffix: s.search.Suffix, HostSuffixes: s.hostSuffixes},
	}
	var tasks []func(context.Context) error
	if len(s.upstream) > 0 {
		client, err := upstream.New(upstream.Config{Servers: s.upstream})
		if err != nil {
			return played{}, err
		}
		config.Upstream = func(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
			s.note(query)
			return client.Exchange(ctx, query)
		}
		tasks = append(tasks, client.Run)
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
	err = daemon.RunAll(ctx, append(tasks,
		func(ctx context.Context) error { return server.Run(ctx, sockets) },
		func(ctx context.Context) (err error) {
			defer stop()
			result, err = q.ask(ctx, p)
			return err
		})...)
	lookup := s.judge(q.name, result)
	lookup.upstream += len(s.taken())
	return lookup, err
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
			return s.lacks(new(dns.Msg).SetRcode(query, dns.RcodeNameError), query.Question), nil
		case len(s.upstream) > 0:
			return exchange(ctx, network, at, query)
		}
		s.turn.Lock()
		defer s.turn.Unlock()
		reply, err := exchange(ctx, network, at, query)
		missed := s.taken()
		if reply == nil || missed == nil {
			return reply, err
		}
		missed, alias := s.sorted(query.Question[0].Name, missed)
		if len(reply.Answer) == 0 || alias && s.expands(query.Question[0].Name) {
			reply = new(dns.Msg).SetRcode(query, dns.RcodeNameError)
		}
		return s.lacks(reply, missed), nil
	}
}

// miss is upstream where there is none. Its reply says nothing, which the server puts
// behind the alias that leads there, and does not keep.
func (s *standIn) miss(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
	s.note(query)
	return new(dns.Msg).SetReply(query), nil
}

// note records a question for upstream.
func (s *standIn) note(query *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := query.Question[0]
	q.Name = dns.CanonicalName(q.Name)
	s.asked = appendNew(s.asked, q)
}

// taken returns the questions noted since it was called last, each once.
func (s *standIn) taken() []dns.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// candidates are the names that the server tries for a query, in order: the name asked
// for, and those of its search list if it is below the autopath suffix.
func (s *standIn) candidates(name string) []string {
	list := []string{dns.CanonicalName(name)}
	n, err := fqdn.ParseName(name)
	if err != nil {
		return list
	}
	if place, r := s.search.Parse(n); place == autopath.Search {
		list = append(list, texts(s.search.Candidates(r.Name, s.search.SearchPaths(r.Namespace, s.hostSuffixes)))...)
	}
	return list
}

// expands tells whether a name is below the autopath suffix with a search list.
func (s *standIn) expands(name string) bool { return len(s.candidates(name)) > 1 }

// sorted puts what was missed for a query into the order of its candidates, which an
// expansion asks for at once. If there is the target of an alias, that alone is left: the
// server looks no further before it knows of it.
func (s *standIn) sorted(name string, missed []dns.Question) (list []dns.Question, alias bool) {
	candidates := s.candidates(name)
	place := func(q dns.Question) int { return slices.Index(candidates, q.Name) }
	if i := slices.IndexFunc(missed, func(q dns.Question) bool { return place(q) < 0 }); i >= 0 {
		target := missed[i].Name
		return slices.DeleteFunc(missed, func(q dns.Question) bool { return q.Name != target }), true
	}
	slices.SortFunc(missed, func(a, b dns.Question) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Qtype, b.Qtype))
	})
	return missed, false
}

// lacks notes which questions a reply is without the answers of.
func (s *standIn) lacks(reply *dns.Msg, questions []dns.Question) *dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unasked[reply] = questions
	return reply
}

// played is a lookup and what is known of its result. The zero values beside the
// Result say that every query was asked.
type played struct {
	libc.Result

	upstream int      // questions that the cluster DNS asked others, or would have asked
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
	missed := make([][]dns.Question, len(r.Queries))
	ends, open := -1, "" // at which query, for want of which name
	itself := func(missed dns.Question) bool { return strings.EqualFold(missed.Name, dns.Fqdn(name)) }
	for i := range r.Queries {
		q := &r.Queries[i]
		missed[i] = s.unasked[q.Reply]
		switch {
		case errors.Is(q.Err, libc.ErrOvertaken) && !s.is(q.Server): // the cluster's has answered
			q.Err, q.Took = errNotAsked, 0
			continue
		case missed[i] == nil:
			continue
		}
		if alias := !slices.Contains(s.candidates(q.Name), dns.CanonicalName(missed[i][0].Name)); alias && ends < 0 {
			ends, open = i, missed[i][0].Name // an alias is something found
		}
		if len(q.Reply.Answer) > 0 {
			continue
		}
		q.Reply, q.Err, q.Took = nil, errNotAsked, 0
		if ends < 0 && r.Error != "" && slices.ContainsFunc(missed[i], itself) {
			ends, open = i, dns.Fqdn(name)
		}
	}
	p := played{Result: r, open: open, ifAbsent: len(r.Queries)}
	if ends >= 0 { // the query for the other family goes with it
		for ends+1 < len(r.Queries) && r.Queries[ends+1].Name == r.Queries[ends].Name {
			ends++
		}
		p.Queries, missed = r.Queries[:ends+1], missed[:ends+1]
	}
	var questions []dns.Question // for upstream, each once
	for i := range missed {
		for _, m := range missed[i] {
			p.notAsked = appendNew(p.notAsked, m.Name)
			if !strings.EqualFold(m.Name, open) {
				p.absent = appendNew(p.absent, m.Name)
			}
			if s.is(p.Queries[i].Server) {
				questions = appendNew(questions, m)
			}
		}
	}
	p.upstream = len(questions)
	return p
}

// synthetic returns the addresses of the cluster's names that no cluster has assigned.
func (p *played) synthetic() (list []netip.Addr) {
	for _, q := range p.Queries {
		if q.Reply == nil || !q.Reply.Authoritative {
			continue
		}
		for _, rr := range q.Reply.Answer {
			if a, ok := addressOf(rr); ok && zonesync.Synthetic(a) {
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
