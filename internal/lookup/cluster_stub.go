// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
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

// clusterStub is the network of one lookup: a DNS server with the names of a cluster and
// an empty cache. Queries to other nameservers are not sent.
//
// Without upstream servers it replies NXDOMAIN to a query that it would forward, so that
// the library continues the search, and records the questions.
type clusterStub struct {
	*clusterDNS
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
func (c *clusterDNS) run(ctx context.Context, q Question, s libc.Simulator) (outcome, error) {
	stub := &clusterStub{
		clusterDNS: c, unanswered: map[dns.Question][]dns.Question{},
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
	s.cache = cache.New(cache.Config{})
	config := dnsserver.Config{
		Zone: s.zone, Domain: s.search.Domain, TTL: clusterTTL, Cache: s.cache,
		Autopath: dnsserver.Autopath{HostSuffixes: s.hostSuffixes},
	}
	// Without an upstream server, the server appends the empty reply to an alias that leads to it, and does not cache it.
	exchange := func(_ context.Context, query *dns.Msg) (*dns.Msg, error) { return new(dns.Msg).SetReply(query), nil }
	var tasks []daemon.Task
	if len(s.upstream) > 0 {
		client := upstream.New(upstream.Config{Servers: s.upstream})
		exchange, tasks = client.Exchange, append(tasks, client.Run)
	}
	config.Upstream = func(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
		q := query.Question[0]
		q.Name = dns.CanonicalName(q.Name)
		s.mu.Lock()
		s.forwarded = appendNew(s.forwarded, q)
		s.mu.Unlock()
		return exchange(ctx, query)
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
			return gather.Exchange(ctx, network, s.addr, query)
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
	reply, err := gather.Exchange(ctx, network, s.addr, query)
	forwarded := s.takeForwarded()
	if reply == nil || forwarded == nil {
		return reply, err
	}
	q := query.Question[0]
	questions, alias := s.sortForwarded(q.Name, forwarded)
	s.mu.Lock()
	s.unanswered[q] = questions
	s.mu.Unlock()
	if len(reply.Answer) == 0 || alias && len(s.candidates(q.Name)) > 1 { // of an expansion
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

// takeForwarded returns the questions forwarded since the last call.
func (s *clusterStub) takeForwarded() []dns.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.forwarded
	s.forwarded = nil
	return list
}

// clusterTTL is the TTL of the cluster's records in seconds, as in the command dns.
const clusterTTL = 5

// clusterDNS is the cluster DNS with the names of manifests. It is not changed by a lookup.
type clusterDNS struct {
	zone         *zone.Zone
	search       autopath.Zone
	hostSuffixes []fqdn.Name
	addrs        []netip.Addr      // at which pods query it
	upstream     []upstream.Server // none: names outside the cluster are not asked for
	catalog      *catalog          // set by load
}

// newCluster returns the cluster DNS of a node without names. Below the autopath suffix
// it searches the domains of host. In a cluster these are configured at the cluster DNS,
// which does not have the node's file.
func newCluster(n policy.Node, host resolvconf.File, servers []upstream.Server) (*clusterDNS, error) {
	suffixes := dnsnode.HostSuffixes(hostresolv.Snapshot{File: host}, slog.New(slog.DiscardHandler))
	c := &clusterDNS{
		addrs: slices.Clone(n.ClusterDNS), upstream: servers,
		hostSuffixes: suffixes[:min(len(suffixes), dnsserver.MaxHostSuffixes)],
	}
	if a := n.Autopath.NodeCache; a.IsValid() { // it queries the cluster DNS
		c.addrs = appendNew(c.addrs, a)
	}
	domain, err := fqdn.ParseName(n.ClusterDomain)
	if err != nil || domain == fqdn.Root {
		return nil, errors.New("no cluster domain configured: set --cluster-domain or --server")
	}
	if c.search, err = autopath.NewZone(domain); err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	if c.zone, err = zone.New(zone.Config{Domain: domain, Pods: zone.PodsInsecure, Local: c.addrs}); err != nil {
		return nil, err
	}
	return c, nil
}

// load adds the names of m. namespace is for objects without one; complete is
// Config.Complete. The error joins the errors of the objects that were skipped.
func (c *clusterDNS) load(m kube.Manifest, namespace string, complete bool) error {
	objects, err := cluster.DecodeManifest(m, namespace)
	c.catalog = newCatalog(c.search.Domain.String(), objects, complete)
	manifests := []cluster.Manifest{objects}
	if !complete {
		// The API server creates a Service for itself in each cluster. Its address is not known, and therefore synthetic; it
		// has the family of the cluster DNS.
		family := corev1.IPv4Protocol
		if len(c.addrs) > 0 && c.addrs[0].Is6() {
			family = corev1.IPv6Protocol
		}
		api, invalid := cluster.ParseManifest("each cluster", fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Service",
			"metadata": {"name": "kubernetes", "namespace": "default"},
			"spec": {"ipFamilies": [%q], "ports": [{"name": "https", "port": 443}]}}`, family))
		err = errors.Join(err, invalid)
		manifests = []cluster.Manifest{api, objects} // of two Services with one name the last wins
	}
	return errors.Join(err, cluster.LoadZone(c.zone, c.search.Domain, manifests...))
}

func (c *clusterDNS) serves(server netip.Addr) bool { return slices.Contains(c.addrs, server) }

// candidates returns the names that the cluster DNS tries for a query, in order: the name
// itself and, below the autopath suffix, the names of its search list.
func (c *clusterDNS) candidates(name string) []string {
	list := []string{dns.CanonicalName(name)}
	n, err := fqdn.ParseName(name)
	if err != nil {
		return list
	}
	if place, r := c.search.Parse(n); place == autopath.Search {
		list = append(list, texts(c.search.Candidates(r.Name, c.search.SearchPaths(r.Namespace, c.hostSuffixes)))...)
	}
	return list
}

// sortForwarded sorts the questions that the cluster DNS forwards for a query by
// candidate, because an expansion sends them at once. If one of them is for the target of
// an alias, only the questions for that target are returned: the server does not look
// further before it has resolved the alias.
func (c *clusterDNS) sortForwarded(name string, questions []dns.Question) (list []dns.Question, alias bool) {
	candidates := c.candidates(name)
	rank := func(q dns.Question) int { return slices.Index(candidates, q.Name) }
	if i := slices.IndexFunc(questions, func(q dns.Question) bool { return rank(q) < 0 }); i >= 0 {
		target := questions[i].Name
		return slices.DeleteFunc(questions, func(q dns.Question) bool { return q.Name != target }), true
	}
	slices.SortFunc(questions, func(a, b dns.Question) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Qtype, b.Qtype))
	})
	return questions, false
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}
