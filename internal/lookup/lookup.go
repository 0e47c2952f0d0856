// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Question is the call of a program to its C library.
type Question struct {
	Library libc.Library
	Name    string
	Type    uint16 // dns.TypeNone: the addresses of both families
}

func (q Question) typeName() string {
	if q.Type == dns.TypeNone {
		return "A+AAAA"
	}
	return dns.Type(q.Type).String()
}

// simulate calls the simulated library. Programs call getaddrinfo for addresses, and
// res_search for other types.
func (q Question) simulate(ctx context.Context, s libc.Simulator) (r libc.Result, err error) {
	start := time.Now()
	defer func() { r.Took = time.Since(start) }()
	switch q.Type {
	case dns.TypeNone:
		return s.Lookup(ctx, q.Name, libc.Both)
	case dns.TypeA:
		return s.Lookup(ctx, q.Name, libc.IPv4)
	case dns.TypeAAAA:
		return s.Lookup(ctx, q.Name, libc.IPv6)
	default:
		return s.Search(ctx, q.Name, q.Type)
	}
}

// Config describes a lookup.
type Config struct {
	Question Question
	Pod      kube.Workload // see FindPod
	Node     policy.Node   // of the pod
	Engine   *policy.Engine
	Host     resolvconf.File // the node's resolv.conf

	// Server receives the queries to every nameserver of the pod. The zero value means
	// that a cluster DNS with the names of Manifest receives those to the node's
	// cluster DNS, and other nameservers receive none.
	Server netip.AddrPort

	Manifest  kube.Manifest
	Namespace string            // of objects in Manifest that have none
	Complete  bool              // Manifest is the whole cluster: names that it lacks do not exist
	Upstream  []upstream.Server // of the cluster DNS with the names of Manifest
}

// Lookup is a lookup that can be run with several policies.
type Lookup struct {
	Config

	// Skipped joins the errors of the objects in Manifest that cannot have DNS names.
	Skipped error

	cluster *clusterDNS // nil: Server is set
}

// New returns the lookup that c describes.
func New(c Config) (*Lookup, error) {
	l := &Lookup{Config: c}
	if c.Server.IsValid() {
		return l, nil
	}
	var err error
	if l.cluster, err = newCluster(c.Node, c.Host, c.Upstream); err != nil {
		return nil, err
	}
	l.Skipped = l.cluster.load(c.Manifest, c.Namespace, c.Complete)
	return l, nil
}

// Run runs the lookup with the pod's policy.
func (l *Lookup) Run(ctx context.Context) (*Result, error) { return l.run(ctx, "") }

// Compare runs the lookup with ClusterFirst and with ClusterFirstWithAutopath, whichever
// policy the pod has.
func (l *Lookup) Compare(ctx context.Context) (*Comparison, error) {
	base := policy.ClusterFirst
	if l.Pod.Pod.Spec.HostNetwork { // there ClusterFirst is the host's DNS
		base = policy.ClusterFirstWithHostNet
	}
	a, err := l.run(ctx, base)
	if err != nil {
		return nil, err
	}
	b, err := l.run(ctx, policy.ClusterFirstWithAutopath)
	if err != nil {
		return nil, err
	}
	return &Comparison{base: a, autopath: b, node: l.Node}, nil
}

// run runs the lookup. override replaces the pod's policy unless it is empty.
func (l *Lookup) run(ctx context.Context, override policy.Policy) (*Result, error) {
	d, err := l.decide(override)
	if err != nil {
		return nil, err
	}
	r := &Result{
		question: l.Question, pod: strings.TrimPrefix(l.Pod.Namespace+"/"+l.Pod.Name, "/"), at: l.Pod.At(""), policy: override,
		file: d.Config().String(), upstream: l.Upstream,
	}
	s := libc.Simulator{
		Library: l.Question.Library, Resolver: l.Question.Library.Read(r.file),
		Hostname: d.Hostname, Hosts: etcHosts(l.Pod.Pod, &d),
	}
	r.lost = s.LostQuery()
	for _, i := range s.Resolver.Remarks {
		r.ignored = append(r.ignored, fmt.Sprintf("%s: line %d of the pod's resolv.conf: %q: %s", s.Library, i.Line, i.Text, i.Cause))
	}
	if l.cluster == nil {
		s.Network, r.server = serverNetwork(l.Server), l.Server.String()
		r.outcome.Result, err = l.Question.simulate(ctx, s)
	} else {
		r.cluster = l.cluster.addrs
		r.outcome, err = l.cluster.run(ctx, l.Question, s)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %q: %w", l.Question.Name, err)
	}
	return r, nil
}

// decide returns the pod's DNS configuration. If instead is not "", it is the pod's policy.
// Without autopath there is nothing to compare with.
func (l *Lookup) decide(instead policy.Policy) (policy.Decision, error) {
	pod := l.Pod.PolicyPod()
	if instead != "" {
		pod.Policy, pod.Override = instead, ""
	}
	d := l.Engine.Decide(pod, l.Host)
	if !d.Starts() {
		refused := &kube.InputError{Location: l.Pod.At(""), Err: fmt.Errorf("the pod would not start: %s", d.Error)}
		if errors.Is(l.Host.Err, fs.ErrNotExist) {
			refused.Hint = cli.ElsewhereHint
		}
		return d, refused
	}
	i := slices.IndexFunc(d.Findings, func(f policy.Finding) bool { return f.Code == policy.CodeAutopathUnavailable })
	if instead != "" && i >= 0 {
		f := d.Findings[i]
		return d, &kube.InputError{Location: l.Pod.At(""), Err: fmt.Errorf("cannot compare policies: %s", f.Message), Hint: f.Hint}
	}
	return d, nil
}

// tcpTimeout ends an exchange over TCP. glibc has no timeout there.
const tcpTimeout = 30 * time.Second

// serverNetwork returns a network in which server receives all queries.
func serverNetwork(server netip.AddrPort) libc.Network {
	return libc.Network{
		UDP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			return gather.Exchange(ctx, "udp", server, query)
		},
		TCP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			ctx, cancel := context.WithTimeout(ctx, tcpTimeout)
			defer cancel()
			return gather.Exchange(ctx, "tcp", server, query)
		},
	}
}
