// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// resolver is a validated ResolverConfiguration.
type resolver struct {
	Addrs        []netip.AddrPort // of Listen
	Domain       fqdn.Name        // of ClusterDomain
	Reverse      []netip.Prefix   // of ReverseCIDRs
	Autopath     dnsserver.Autopath
	ServerLimits dnsserver.Limits // of MaxQueries and MaxMemory
	Statistics   dnsserver.ClientStatistics
	Forward      forwarding
	Queries      dnsserver.QueryLog // without Write
	Chaos        string
	DNS64Prefix  netip.Prefix
}

// newResolver returns the resolver of c, and adds the problems of c to p.
func newResolver(c *v1alpha1.ResolverConfiguration, logFormat string, p *config.Problems) (r resolver) {
	r.Addrs = config.AddrPorts(c.Listen)
	for i, addr := range r.Addrs {
		if addr.Port() != 0 && slices.Contains(r.Addrs[:i], addr) { // for port 0 the kernel selects a free one
			p.Add(fmt.Sprintf("listen[%d]", i), fmt.Errorf("duplicate address %s", addr))
		}
	}
	r.Domain = config.Names([]string{c.ClusterDomain})[0]
	_, err := autopath.NewZone(r.Domain)
	p.Add("clusterDomain", err)
	r.Reverse = config.Networks(c.ReverseCIDRs)
	r.Statistics = map[string]dnsserver.ClientStatistics{
		"disabled": dnsserver.CountNothing, "clients": dnsserver.CountClients, "names": dnsserver.CountNames,
	}[c.ClientStatistics]
	memory := resource.MustParse(c.MaxMemory)
	r.ServerLimits = dnsserver.Limits{MaxQueries: c.MaxQueries, MaxMemory: int(memory.Value())}
	r.Forward = forwarding{
		Upstreams: parseServers(c.Upstreams, "upstreams", p), ResolvConf: *c.ResolvConf,
		Policy: upstream.Policy(c.UpstreamPolicy), Stubs: r.parseStubs(c, p),
		LastKnownGood: config.Duration(c.LastKnownGood),
	}
	r.Queries, r.Chaos = newQueryLog(c.QueryLog, logFormat), c.Chaos
	if n := len(c.Chaos); n > 255 {
		p.Add("chaos", fmt.Errorf("%d octets: want at most 255", n))
	}
	if c.DNS64Prefix != "" {
		r.DNS64Prefix, err = dnsserver.ParseDNS64Prefix(c.DNS64Prefix)
		p.Add("dns64Prefix", err)
	}
	return r
}

// ClusterDNSConfig is a validated DNSConfiguration.
type ClusterDNSConfig struct {
	v1alpha1.DNSConfiguration
	resolver

	External        []fqdn.Name // of ExternalZones
	manifestsOrigin string      // where Manifests is set, for errors
}

// podModes are the values of Pods.
var podModes = map[string]zone.PodMode{"disabled": zone.PodsDisabled, "insecure": zone.PodsInsecure, "verified": zone.PodsVerified}

// ClusterDNSKind describes the file of the command dns.
func ClusterDNSKind() *config.Kind[ClusterDNSConfig] {
	return &config.Kind[ClusterDNSConfig]{
		Check: checkClusterDNS,
		Finish: func(c *ClusterDNSConfig, s *config.Source[ClusterDNSConfig]) error {
			c.manifestsOrigin = s.Origin("manifests").Name()
			return nil
		},
	}
}

func checkClusterDNS(c *ClusterDNSConfig, p *config.Problems) {
	c.resolver = newResolver(&c.ResolverConfiguration, c.LogFormat, p)
	if len(c.Manifests) > 0 && (c.Kubeconfig != "" || c.Snapshot != "") {
		p.AddConflict("manifests", "kubeconfig", "snapshot")
	}
	c.External = config.Names(c.ExternalZones)
	for i, name := range c.External {
		p.Add(fmt.Sprintf("externalZones[%d]", i), c.checkExternal(name, c.External[:i]))
	}
	c.Forward.Hosts = hosts{c.Hosts.Entries, c.Hosts.File, *c.Hosts.TTL}
	for i, entry := range c.Hosts.Entries {
		p.Add(fmt.Sprintf("hosts.entries[%d]", i), new(dnsserver.Hosts).AddLine(entry))
	}
	c.Forward.Rules = rules{c.Rewrite, c.ACL, c.Answers}
	c.Forward.Rules.compile(p.Add)
	c.Autopath.HostSuffixes = config.Names(c.HostSuffixes)
	if n := len(c.HostSuffixes); n > dnsserver.MaxHostSuffixes {
		p.Add("hostSuffixes", fmt.Errorf("%d domains: want at most %d", n, dnsserver.MaxHostSuffixes))
	}
	c.Autopath.NodeCaches.Namespace, c.Autopath.NodeCaches.Name, _ = strings.Cut(c.AutopathService, "/")
	c.Autopath.Allowed = config.Networks(c.AutopathNetworks)
	if len(c.AutopathNetworks) == 0 && len(c.Manifests) > 0 { // a trial on one machine: no Service has the node cache as endpoint
		c.Autopath.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
}

// NodeCacheConfig is a validated NodeCacheConfiguration.
type NodeCacheConfig struct {
	v1alpha1.NodeCacheConfiguration
	resolver

	Fallback fqdn.Name // of FallbackService; "": none
}

// NodeCacheKind describes the file of the command nodecache.
func NodeCacheKind() *config.Kind[NodeCacheConfig] {
	return &config.Kind[NodeCacheConfig]{
		Check: checkNodeCache,
		Finish: func(c *NodeCacheConfig, s *config.Source[NodeCacheConfig]) error {
			switch {
			case len(c.ClusterDNS) > 0:
				return nil
			case s.Path() != "":
				return s.Missing("clusterDNS", "")
			}
			// There is no default: a wrong server would deny names that exist.
			return usage.Errorf("no cluster DNS server configured: set --cluster-dns or clusterDNS")
		},
	}
}

func checkNodeCache(c *NodeCacheConfig, p *config.Problems) {
	c.resolver = newResolver(&c.ResolverConfiguration, c.LogFormat, p)
	c.Autopath.Allowed = []netip.Prefix{} // no client may send the option: pods send their search list in the name
	c.Forward.ClusterReverse = c.Reverse
	c.Forward.Cluster = parseServers(c.ClusterDNS, "clusterDNS", p)
	c.Forward.Pinned = pinnedNames{config.Names(c.PinnedNames.Names), c.PinnedNames.File}
	for i, name := range c.Forward.Pinned.names {
		if _, inCluster := name.Within(c.Domain); inCluster {
			p.Add(fmt.Sprintf("pinnedNames.names[%d]", i), fmt.Errorf("%v is a name of the cluster: want one of other servers", name))
		}
	}
	for i, s := range c.Forward.Cluster { // each query would come back until its time is over
		if slices.Contains(c.Addrs, s.Addr) {
			p.Add(fmt.Sprintf("clusterDNS[%d]", i), fmt.Errorf("%s is an address on which the node cache itself listens: "+
				"set the address of the cluster DNS", s.Addr))
		}
	}
	switch name, namespace, ok := strings.Cut(c.FallbackService, "."); {
	case c.FallbackService == "":
	case !ok || len(fqdn.LabelProblems(name))+len(fqdn.LabelProblems(namespace)) > 0:
		p.Add("fallbackService", fmt.Errorf("%q is not a Service: want NAME.NAMESPACE", c.FallbackService))
	default:
		c.Fallback = fqdn.Join(c.Domain, name, namespace, "svc")
	}
	if c.Interface != "" {
		checkInterfaceAddrs(c.Addrs, p)
	}
}

// checkInterfaceAddrs checks that an interface can have the addresses, and pods can use
// them.
func checkInterfaceAddrs(addrs []netip.AddrPort, p *config.Problems) {
	for i, addr := range addrs {
		path, a := fmt.Sprintf("listen[%d]", i), addr.Addr()
		switch {
		case a.IsUnspecified() || a.IsLoopback() || a.Zone() != "":
			p.Add(path, fmt.Errorf("%s cannot be assigned to an interface", a))
		case a.Is6() && a.IsLinkLocalUnicast():
			p.Add(path, fmt.Errorf("%s is link-local, which pods cannot use without a zone: use an address in fc00::/7", a))
		}
	}
}

// forwarding is where a DNS server forwards queries.
type forwarding struct {
	Upstreams     []upstream.Server
	ResolvConf    string          // path of a resolv.conf with the servers if Upstreams is empty; "": there is none
	Policy        upstream.Policy // of Upstreams, the servers in ResolvConf, and Stubs
	Stubs         []stubDomain
	LastKnownGood time.Duration     // of names that Upstreams or the servers in ResolvConf deny
	Cluster       []upstream.Server // servers of the cluster DNS; nil: the server itself is the cluster DNS

	Hosts hosts // of a cluster DNS server
	Rules rules // of a cluster DNS server

	Pinned pinnedNames // of a node cache

	ClusterReverse []netip.Prefix // whose reverse names go to Cluster, whatever Stubs has
}

// parseServers parses the servers in the list at path.
func parseServers(texts []string, path string, p *config.Problems) (servers []upstream.Server) {
	for i, text := range texts {
		server, err := upstream.ParseServer(text)
		p.Add(fmt.Sprintf("%s[%d]", path, i), err)
		servers = append(servers, server)
	}
	return servers
}

// checkStub returns an error if a stub domain would never be used: it is a zone of the cluster.
func (r *resolver) checkStub(stub fqdn.Name) error {
	switch _, isAutopath := stub.Within(autopath.Suffix); {
	case stub == r.Domain:
		return fmt.Errorf("%v is the cluster domain: choose a domain below it", stub)
	case isAutopath:
		return fmt.Errorf("%v is in the autopath domain %v, which is never forwarded", stub, autopath.Suffix)
	}
	for _, p := range r.Reverse {
		if slices.Contains(zone.ReverseZones(p), stub) {
			return fmt.Errorf("%v is a reverse zone of %v in reverseCIDRs: choose a domain below it", stub, p)
		}
	}
	return nil
}

// checkExternal returns an error for an external zone that would never be used. earlier are other external zones.
func (r *resolver) checkExternal(name fqdn.Name, earlier []fqdn.Name) error {
	isStub := func(stub stubDomain) bool { return stub.Zone == name.String() }
	switch {
	case slices.Contains(earlier, name):
		return fmt.Errorf("duplicate zone %v", name)
	case len(name)+len("\x0ahostmaster\x03dns") > fqdn.MaxWire:
		return fmt.Errorf("%v is too long for the names of its SOA record", name)
	case slices.ContainsFunc(r.Forward.Stubs, isStub) && r.checkStub(name) == nil:
		return fmt.Errorf("%v is in stubDomains, too", name)
	}
	return r.checkStub(name)
}

// stubDomain is a domain with servers of its own, or with a zone file.
type stubDomain struct {
	upstream.StubDomain
	File          string
	LastKnownGood time.Duration
}

// parseStubs parses domains with servers or a file of their own.
func (r *resolver) parseStubs(c *v1alpha1.ResolverConfiguration, p *config.Problems) (stubs []stubDomain) {
	for i, d := range c.StubDomains {
		stub, err := r.parseStub(d, c.LastKnownGood)
		if err == nil && slices.ContainsFunc(stubs, func(other stubDomain) bool { return other.Zone == stub.Zone }) {
			err = fmt.Errorf("duplicate zone %q: list all its servers in one place", d.Zone)
		}
		p.Add(fmt.Sprintf("stubDomains[%d]", i), err)
		stubs = append(stubs, stub)
	}
	return stubs
}

// parseStub parses a domain. lastKnownGood is the default of domains that are not in the cluster domain.
func (r *resolver) parseStub(d v1alpha1.StubDomain, lastKnownGood string) (stub stubDomain, err error) {
	stub.File = d.File
	stub.StubDomain, err = upstream.ParseStubDomain(d.Zone, d.Servers)
	switch {
	case err != nil:
		return stub, err
	case (len(d.Servers) == 0) == (d.File == ""):
		return stub, fmt.Errorf("%q: want either servers or a file", d.Zone)
	case d.File != "" && d.LastKnownGood != "":
		return stub, fmt.Errorf("%q: lastKnownGood is for servers, not for a file", d.Zone)
	}
	name, err := fqdn.ParseName(stub.Zone)
	if err != nil {
		return stub, err
	}
	if _, inCluster := name.Within(r.Domain); inCluster {
		lastKnownGood = ""
	}
	stub.LastKnownGood = config.Duration(cmp.Or(d.LastKnownGood, lastKnownGood))
	return stub, r.checkStub(name)
}

// rules are the rules of a DNSConfiguration. The zero value has none.
type rules struct {
	rewrites []v1alpha1.Rewrite
	acl      []v1alpha1.ACLRule
	answers  []v1alpha1.Answer
}

// compile returns the rules for the server. It calls report for each item, with its error or nil; a nil report is for
// rules that are known to be valid.
func (r rules) compile(report func(path string, err error)) *dnsserver.Rules {
	if report == nil {
		report = func(string, error) {}
	}
	compiled := &dnsserver.Rules{}
	for i, w := range r.rewrites {
		report(fmt.Sprintf("rewrite[%d]", i), compiled.AddRewrite(dnsserver.Rewrite(w)))
	}
	for i, a := range r.acl {
		report(fmt.Sprintf("acl[%d]", i), compiled.AddACL(dnsserver.ACLRule(a)))
	}
	for i, a := range r.answers {
		report(fmt.Sprintf("answers[%d]", i), compiled.AddAnswer(dnsserver.Answer(a)))
	}
	return compiled
}
