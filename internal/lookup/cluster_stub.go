// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// clusterStub is the network of one lookup: a DNS server with the names of a cluster and
// an empty cache. Queries to other nameservers are not sent.
//
// Without upstream servers it replies NXDOMAIN to a query that it would forward, so that
// the library continues the search, and records the questions.
type clusterStub struct {
	*cluster
	addr netip.AddrPort // of the server

	// wait makes queries to other nameservers wait until a query to the cluster DNS
	// has a reply. musl takes the first reply of any server, and the cluster DNS is
	// close.
	wait bool

	cache   *cache.Cache
	sending sync.Mutex // held during a query without upstream servers, so that forwarded belongs to it

	mu         sync.Mutex                      // guards what follows
	forwarded  []dns.Question                  // to upstream servers if there were some, each once
	unanswered map[dns.Question][]dns.Question // the forwarded questions, by the query to the cluster DNS
}

// run runs a lookup with c as the cluster DNS.
func (c *cluster) run(ctx context.Context, q Question, s libc.Simulator) (outcome, error) {
	stub := &clusterStub{
		cluster: c, unanswered: map[dns.Question][]dns.Question{},
		wait: s.Library.QueriesAllServers() && slices.ContainsFunc(s.Resolver.Nameservers, c.serves),
	}
	server, tasks, err := stub.newServer()
	if err != nil {
		return outcome{}, err
	}
	sockets, err := dnsserver.Listen(ctx, []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)})
	if err != nil {
		return outcome{}, fmt.Errorf("starting a DNS server for the lookup: %w", err)
	}
	stub.addr = sockets.Addrs()[0]
	s.Network = libc.Network{UDP: stub.exchange("udp"), TCP: stub.exchange("tcp")}

	ctx, stop := context.WithCancel(ctx)
	var result libc.Result
	err = daemon.RunAll(ctx, append(tasks,
		func(ctx context.Context) error { return server.Run(ctx, sockets) },
		func(ctx context.Context) (err error) {
			defer stop()
			result, err = q.simulate(ctx, s)
			return err
		})...)
	missing := make([][]dns.Question, len(result.Queries))
	for i, query := range result.Queries {
		missing[i] = stub.missing(query)
	}
	o := c.newOutcome(q.Name, result, missing)
	o.forwarded += len(stub.takeForwarded())
	return o, err
}

// newServer returns the server, and the tasks to run beside it.
func (s *clusterStub) newServer() (*dnsserver.Server, []daemon.Task, error) {
	var err error
	if s.cache, err = cache.New(cache.Config{}); err != nil {
		return nil, nil, err
	}
	config := dnsserver.Config{
		Zone: s.zone, Domain: s.search.Domain, TTL: clusterTTL, Cache: s.cache, Upstream: s.replyEmpty,
		Autopath: dnsserver.Autopath{Suffix: s.search.Suffix, HostSuffixes: s.hostSuffixes},
	}
	var tasks []daemon.Task
	if len(s.upstream) > 0 {
		client, err := upstream.New(upstream.Config{Servers: s.upstream})
		if err != nil {
			return nil, nil, err
		}
		config.Upstream = func(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
			s.record(query)
			return client.Exchange(ctx, query)
		}
		tasks = append(tasks, client.Run)
	}
	server, err := dnsserver.New(config)
	return server, tasks, err
}

// exchange returns the network of UDP or TCP.
func (s *clusterStub) exchange(network string) libc.Exchange {
	return func(ctx context.Context, server netip.Addr, query *dns.Msg) (*dns.Msg, error) {
		switch {
		case !s.serves(server) && s.wait:
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case !s.serves(server):
			return new(dns.Msg).SetRcode(query, dns.RcodeNameError), nil
		case len(s.upstream) > 0:
			return Exchange(ctx, network, s.addr, query)
		}
		return s.exchangeOffline(ctx, network, query)
	}
}

// exchangeOffline queries the server and records the questions that it forwards. The
// answer to an alias is kept, unless it is the alias of an expansion.
func (s *clusterStub) exchangeOffline(ctx context.Context, network string, query *dns.Msg) (*dns.Msg, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.cache.Clear() // A and AAAA come in any order, and each must show all questions that it needs
	reply, err := Exchange(ctx, network, s.addr, query)
	forwarded := s.takeForwarded()
	if reply == nil || forwarded == nil {
		return reply, err
	}
	q := query.Question[0]
	questions, alias := s.sortForwarded(q.Name, forwarded)
	s.mu.Lock()
	s.unanswered[q] = questions
	s.mu.Unlock()
	if len(reply.Answer) == 0 || alias && s.hasSearchList(q.Name) {
		reply = new(dns.Msg).SetRcode(query, dns.RcodeNameError)
	}
	return reply, nil
}

// missing returns the questions for a query that were not asked, or that the manifests do not
// decide.
func (s *clusterStub) missing(q libc.Query) []dns.Question {
	question := dns.Question{Name: q.Name, Qtype: q.Type, Qclass: dns.ClassINET}
	switch {
	case q.Reply == nil:
		return nil
	case !s.serves(q.Server):
		return []dns.Question{question}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.unanswered[question]
	if len(q.Reply.Answer) > 0 {
		return list
	}
	candidates := s.candidates(q.Name)
	for _, name := range candidates {
		if s.catalog.explain(name).unknown && (q.Reply.Rcode == dns.RcodeNameError || name != dns.CanonicalName(q.Name)) {
			list = appendNew(slices.Clone(list), dns.Question{Name: name, Qtype: q.Type, Qclass: dns.ClassINET})
		}
	}
	slices.SortStableFunc(list, func(a, b dns.Question) int {
		return cmp.Compare(slices.Index(candidates, a.Name), slices.Index(candidates, b.Name))
	})
	return list
}

// replyEmpty is the upstream server if there is none. The server appends the empty reply
// to an alias that leads to it, and does not cache it.
func (s *clusterStub) replyEmpty(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
	s.record(query)
	return new(dns.Msg).SetReply(query), nil
}

// record adds a question to forwarded.
func (s *clusterStub) record(query *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := query.Question[0]
	q.Name = dns.CanonicalName(q.Name)
	s.forwarded = appendNew(s.forwarded, q)
}

// takeForwarded returns the questions forwarded since the last call.
func (s *clusterStub) takeForwarded() []dns.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.forwarded
	s.forwarded = nil
	return list
}
