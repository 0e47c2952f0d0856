// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// maxInterface is the longest name of a network interface in octets: IFNAMSIZ without the
// final NUL.
const maxInterface = 15

// NodeCache is a validated NodeCacheConfiguration.
type NodeCache struct {
	v1alpha1.NodeCacheConfiguration

	Addrs        []netip.AddrPort     // of Listen
	Domain       fqdn.Name            // of ClusterDomain
	Fallback     fqdn.Name            // of FallbackService
	Reverse      []netip.Prefix       // of ReverseCIDRs
	Local        dnsserver.LocalNames // of LocalNames
	Autopath     dnsserver.Autopath
	ServerLimits dnsserver.Limits // of Limits
	Forward      Forward
}

// NodeCacheKind describes the file of the command nodecache.
func NodeCacheKind() *Kind[NodeCache] {
	return &Kind[NodeCache]{
		Name: v1alpha1.KindNodeCache,
		parse: func(data []byte) (NodeCache, error) {
			c, err := v1alpha1.ParseNodeCache(data)
			return NodeCache{NodeCacheConfiguration: c}, err
		},
		finish: func(c *NodeCache, s *Source[NodeCache]) error {
			switch {
			case len(c.ClusterDNS) > 0:
				return nil
			case s.path != "":
				return s.missing("clusterDNS", "")
			}
			// There is no default: a wrong server would deny names that exist.
			return usage.Errorf("no cluster DNS server configured: set --cluster-dns or clusterDNS")
		},
		Fields: slices.Concat(nodeCacheFields, nodeCacheLimitFields(),
			[]Field[NodeCache]{logFormatField(func(c *NodeCache) *string { return &c.LogFormat })}),
	}
}

// nodeCacheFields are the rows above those of Limits.
var nodeCacheFields = []Field[NodeCache]{
	{
		Path: "listen", Flag: "listen", Restart: true, At: func(c *NodeCache) any { return &c.Listen },
		Usage: listenUsage,
		Check: func(c *NodeCache) (err error) {
			if c.Addrs, err = parseListen(&c.Listen, v1alpha1.DefaultNodeCacheListen); err != nil || c.Interface == "" {
				return err
			}
			return checkInterfaceAddrs(c.Addrs)
		},
	},
	{
		Path: "interface", Flag: "interface", Restart: true, At: func(c *NodeCache) any { return &c.Interface },
		Usage: "`NAME` of the dummy interface to which the addresses of --listen are assigned, created if it does not exist; empty: none",
		Check: func(c *NodeCache) error { return checkInterfaceName(c.Interface) },
	},
	{
		Path: "notrack", Flag: "notrack", Restart: true, At: func(c *NodeCache) any { return &c.Notrack },
		Usage:  "`MODE` of the rules that keep kube-proxy from translating the addresses of --listen: auto or disabled",
		Values: []string{v1alpha1.NotrackAuto, v1alpha1.NotrackDisabled},
		Check:  func(c *NodeCache) error { return setDefault(&c.Notrack, v1alpha1.NotrackAuto) },
	},
	httpField(func(c *NodeCache) *string { return &c.HTTP }),
	{
		Path: "clusterDNS", Flag: "cluster-dns", At: func(c *NodeCache) any { return &c.ClusterDNS },
		Usage: "`ADDR[:PORT]` or tcp://ADDR[:PORT] of the cluster DNS; repeatable",
		Check: func(c *NodeCache) (err error) {
			if c.Forward.Cluster, err = parseServers(c.ClusterDNS); err != nil {
				return err
			}
			return checkOtherServers(c.Forward.Cluster, c.Addrs)
		},
	},
	clusterDomainField(func(c *NodeCache) (*string, *fqdn.Name) { return &c.ClusterDomain, &c.Domain }),
	{
		Path: "fallbackService", Restart: true, At: func(c *NodeCache) any { return &c.FallbackService },
		Check: func(c *NodeCache) (err error) {
			switch name, namespace, ok := strings.Cut(c.FallbackService, "."); {
			case c.FallbackService == "":
			case !ok || len(fqdn.LabelProblems(name))+len(fqdn.LabelProblems(namespace)) > 0:
				err = fmt.Errorf("%q is not a Service: want NAME.NAMESPACE", c.FallbackService)
			default:
				c.Fallback = fqdn.Join(c.Domain, name, namespace, "svc")
			}
			return err
		},
	},
	{
		Path: "reverseCIDRs", Flag: "reverse-cidr", At: func(c *NodeCache) any { return &c.ReverseCIDRs },
		Usage: "`CIDR` of Services and pods, whose reverse names are sent to the cluster DNS; " +
			"repeatable; empty: all that are not in a stub domain",
		Check: func(c *NodeCache) (err error) {
			c.Reverse, err = parseNetworks(c.ReverseCIDRs)
			c.Forward.ClusterReverse = c.Reverse
			return err
		},
	},
	{
		Path: "upstreams", Flag: "upstream", At: func(c *NodeCache) any { return &c.Upstreams },
		Usage: "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME for names outside the cluster, instead of the servers in --resolv-conf; repeatable",
		Check: func(c *NodeCache) (err error) {
			c.Forward.Upstreams, err = parseServers(c.Upstreams)
			return err
		},
	},
	{
		Path: "resolvConf", Flag: "resolv-conf", At: func(c *NodeCache) any { return &c.ResolvConf },
		Usage: "`PATH` of the node's resolv.conf, for servers and search domains; watched; empty: none",
		Check: func(c *NodeCache) error {
			c.Forward.ResolvConf = parseResolvConf(&c.ResolvConf)
			return nil
		},
	},
	upstreamPolicyField(func(c *NodeCache) (*string, *upstream.Policy) { return &c.UpstreamPolicy, &c.Forward.Policy }),
	stubDomainsField(
		func(c *NodeCache) (*[]v1alpha1.StubDomain, *[]upstream.StubDomain) {
			return &c.StubDomains, &c.Forward.Stubs
		},
		func(c *NodeCache) clusterZones { return clusterZones{c.Domain, c.Reverse, c.AutopathSuffix} }),
	specialUseField(func(c *NodeCache) (**bool, *bool) { return &c.LocalNames.SpecialUse, &c.Local.SpecialUse }),
	{
		Path: "autopathSuffix", Flag: "autopath-suffix", Restart: true, At: func(c *NodeCache) any { return &c.AutopathSuffix },
		Usage: suffixUsage,
		Check: func(c *NodeCache) (err error) {
			c.Autopath.Allowed = []netip.Prefix{} // no client may send the option: pods send their search list in the name
			c.Autopath.Suffix, err = parseAutopathSuffix(&c.AutopathSuffix, c.Domain)
			return err
		},
	},
	{
		Path: "ednsOption", Flag: "edns-option", Restart: true, At: func(c *NodeCache) any { return &c.EDNSOption },
		Usage:  "`CODE` of the EDNS0 option in which search lists are sent to the cluster DNS, 65001 to 65534",
		Wanted: "a number from 65001 to 65534",
		Check: func(c *NodeCache) (err error) {
			c.Autopath.Option, err = parseOption(&c.EDNSOption)
			return err
		},
	},
}

func nodeCacheLimitFields() []Field[NodeCache] {
	return limitFields(func(c *NodeCache) (*v1alpha1.Limits, *dnsserver.Limits) { return &c.Limits, &c.ServerLimits })
}

// checkOtherServers checks that none of the servers is the node cache itself, which listens on
// addrs: each query would come back until its time is over.
func checkOtherServers(servers []upstream.Server, addrs []netip.AddrPort) error {
	var problems []error
	for i, s := range servers {
		if slices.Contains(addrs, s.Addr) {
			problems = append(problems, itemError{i,
				fmt.Errorf("%s is an address on which the node cache itself listens: set the address of the cluster DNS", s.Addr)})
		}
	}
	return errors.Join(problems...)
}

// checkInterfaceName checks the name of a network interface; "" is valid.
func checkInterfaceName(name string) error {
	invalid := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:%", r) }
	if len(name) > maxInterface || name == "." || name == ".." || strings.ContainsFunc(name, invalid) {
		return fmt.Errorf("%q is not the name of a network interface: want at most %d octets without blanks and /", name, maxInterface)
	}
	return nil
}

// checkInterfaceAddrs checks that an interface can have the addresses, and pods can use
// them.
func checkInterfaceAddrs(addrs []netip.AddrPort) error {
	var problems []error
	for i, addr := range addrs {
		a := addr.Addr()
		switch {
		case a.IsUnspecified() || a.IsLoopback() || a.Zone() != "":
			problems = append(problems, itemError{i, fmt.Errorf("%s cannot be assigned to an interface", a)})
		case a.Is6() && a.IsLinkLocalUnicast():
			problems = append(problems,
				itemError{i, fmt.Errorf("%s is link-local, which pods cannot use without a zone: use an address in fc00::/7", a)})
		}
	}
	return errors.Join(problems...)
}
