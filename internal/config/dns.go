// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// maxTTL is the longest TTL of the cluster's records in seconds. Services and pods change
// while clients and caches keep a record.
const maxTTL = 3600

// Usage texts of flags that several commands have.
const (
	listenUsage = "`ADDR:PORT` to serve on, UDP and TCP; repeatable"
	suffixUsage = "autopath `DOMAIN`: names below it are expanded"
)

// DNS is a validated DNSConfiguration.
type DNS struct {
	v1alpha1.DNSConfiguration

	Addrs          []netip.AddrPort     // of Listen
	Domain         fqdn.Name            // of ClusterDomain
	Reverse        []netip.Prefix       // of ReverseCIDRs
	Local          dnsserver.LocalNames // of LocalNames
	Autopath       dnsserver.Autopath
	ServerLimits   dnsserver.Limits // of Limits
	Forward        Forward
	SnapshotWait   time.Duration
	SnapshotMaxAge time.Duration
	LameduckTime   time.Duration

	ManifestsOrigin string // where Manifests is set, for errors
}

// PodMode returns the mode of pod names.
func (c *DNS) PodMode() zone.PodMode {
	return map[string]zone.PodMode{"disabled": zone.PodsDisabled, "insecure": zone.PodsInsecure, "verified": zone.PodsVerified}[c.Pods]
}

// DNSKind describes the file of the command dns.
func DNSKind() *Kind[DNS] {
	return &Kind[DNS]{
		Name: v1alpha1.KindDNS,
		parse: func(data []byte) (DNS, error) {
			c, err := v1alpha1.ParseDNS(data)
			return DNS{DNSConfiguration: c}, err
		},
		finish: func(c *DNS, s *Source[DNS]) error {
			c.ManifestsOrigin = s.origin("manifests").Name()
			return nil
		},
		Fields: slices.Concat(dnsFields, dnsLimitFields(), dnsProcessFields),
	}
}

// dnsFields are the rows above those of Limits.
var dnsFields = []Field[DNS]{
	{
		Path: "listen", Flag: "listen", Restart: true, At: func(c *DNS) any { return &c.Listen },
		Usage: listenUsage,
		Check: func(c *DNS) (err error) {
			c.Addrs, err = parseListen(&c.Listen, v1alpha1.DefaultDNSListen)
			return err
		},
	},
	httpField(func(c *DNS) *string { return &c.HTTP }),
	{
		Path: "kubeconfig", Flag: "kubeconfig", Restart: true, At: func(c *DNS) any { return &c.Kubeconfig },
		Usage: "kubeconfig `FILE` of the API server; empty: in-cluster configuration",
	},
	{
		Path: "manifests", Flag: "manifests", Restart: true, At: func(c *DNS) any { return &c.Manifests },
		Usage: "`DIR` of manifests to serve instead of a cluster's objects; watched; repeatable",
		Check: func(c *DNS) error {
			if len(c.Manifests) > 0 && (c.Kubeconfig != "" || c.Snapshot.Path != "") {
				return conflictError{[]string{"kubeconfig", "snapshot.path"}}
			}
			return nil
		},
	},
	{
		Path: "snapshot.path", Flag: "snapshot", Restart: true, At: func(c *DNS) any { return &c.Snapshot.Path },
		Usage: "`FILE` for the snapshot of the cluster's names, for a start without the API server; empty: none",
	},
	{
		Path: "snapshot.wait", Flag: "snapshot-wait", Restart: true, At: func(c *DNS) any { return &c.Snapshot.Wait },
		Usage: "`TIME` without a reply of the API server after which --snapshot is used",
		Check: func(c *DNS) (err error) {
			c.SnapshotWait, err = parsePositiveDuration(&c.Snapshot.Wait, v1alpha1.DefaultSnapshotWait)
			return err
		},
	},
	{
		Path: "snapshot.maxAge", Flag: "snapshot-max-age", Restart: true, At: func(c *DNS) any { return &c.Snapshot.MaxAge },
		Usage: "`TIME` after which --snapshot is too old",
		Check: func(c *DNS) (err error) {
			c.SnapshotMaxAge, err = parsePositiveDuration(&c.Snapshot.MaxAge, v1alpha1.DefaultSnapshotMaxAge)
			return err
		},
	},
	clusterDomainField(func(c *DNS) (*string, *fqdn.Name) { return &c.ClusterDomain, &c.Domain }),
	{
		Path: "reverseCIDRs", Flag: "reverse-cidr", Restart: true, At: func(c *DNS) any { return &c.ReverseCIDRs },
		Usage: "`CIDR` of Services and pods; unknown addresses in it get NXDOMAIN; repeatable",
		Check: func(c *DNS) (err error) {
			c.Reverse, err = parseNetworks(c.ReverseCIDRs)
			return err
		},
	},
	{
		Path: "pods", Flag: "pods", Restart: true, At: func(c *DNS) any { return &c.Pods },
		Usage:  "`MODE` of pod names: disabled, insecure or verified",
		Values: []string{"disabled", "insecure", "verified"},
		Check:  func(c *DNS) error { return setDefault(&c.Pods, v1alpha1.DefaultPods) },
	},
	{
		Path: "ttl", Flag: "ttl", Restart: true, At: func(c *DNS) any { return &c.TTL },
		Usage: "TTL of the cluster's records in `SECONDS`", Wanted: fmt.Sprintf("a number of seconds from 0 to %d", maxTTL),
		Check: func(c *DNS) error {
			if c.TTL == nil {
				c.TTL = new(uint32(v1alpha1.DefaultTTL))
			}
			if *c.TTL > maxTTL {
				return fmt.Errorf("%d: want at most %d seconds", *c.TTL, maxTTL)
			}
			return nil
		},
	},
	{
		Path: "upstreams", Flag: "upstream", At: func(c *DNS) any { return &c.Upstreams },
		Usage: "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME to forward to, instead of --resolv-conf; repeatable",
		Check: func(c *DNS) (err error) {
			c.Forward.Upstreams, err = parseServers(c.Upstreams)
			return err
		},
	},
	{
		Path: "resolvConf", Flag: "resolv-conf", At: func(c *DNS) any { return &c.ResolvConf },
		Usage: "`PATH` of a resolv.conf with the servers to forward to; watched; empty: nothing is forwarded",
		Check: func(c *DNS) error {
			c.Forward.ResolvConf = parseResolvConf(&c.ResolvConf)
			return nil
		},
		Clear: func(c *DNS) { c.Upstreams = nil }, // which would take precedence
	},
	upstreamPolicyField(func(c *DNS) (*string, *upstream.Policy) { return &c.UpstreamPolicy, &c.Forward.Policy }),
	stubDomainsField(
		func(c *DNS) (*[]v1alpha1.StubDomain, *[]upstream.StubDomain) { return &c.StubDomains, &c.Forward.Stubs },
		func(c *DNS) clusterZones { return clusterZones{c.Domain, c.Reverse, c.AutopathSuffix} }),
	specialUseField(func(c *DNS) (**bool, *bool) { return &c.LocalNames.SpecialUse, &c.Local.SpecialUse }),
	{
		Path: "localNames.privateReverse", Restart: true, At: func(c *DNS) any { return &c.LocalNames.PrivateReverse },
		Check: func(c *DNS) error {
			c.Local.PrivateReverse = c.LocalNames.PrivateReverse
			return nil
		},
	},
	{
		Path: "hostSuffixes", Flag: "host-suffix", Restart: true, At: func(c *DNS) any { return &c.HostSuffixes },
		Usage: "search `DOMAIN` of the nodes; repeatable",
		Check: func(c *DNS) (err error) {
			c.Autopath.HostSuffixes, err = parseHostSuffixes(c.HostSuffixes)
			return err
		},
	},
	{
		Path: "autopathSuffix", Flag: "autopath-suffix", Restart: true, At: func(c *DNS) any { return &c.AutopathSuffix },
		Usage: suffixUsage,
		Check: func(c *DNS) (err error) {
			c.Autopath.Suffix, err = parseAutopathSuffix(&c.AutopathSuffix, c.Domain)
			return err
		},
	},
	{
		Path: "ednsOption", Flag: "edns-option", Restart: true, At: func(c *DNS) any { return &c.EDNSOption },
		Usage: "`CODE` of the EDNS0 option with the search lists of node caches, 65001 to 65534", Wanted: "a number from 65001 to 65534",
		Check: func(c *DNS) (err error) {
			c.Autopath.Option, err = parseOption(&c.EDNSOption)
			return err
		},
	},
	{
		Path: "autopathService", Flag: "autopath-service", Restart: true, At: func(c *DNS) any { return &c.AutopathService },
		Usage: "`NAMESPACE/NAME` of the Service of the node caches, whose endpoints may send a search list",
		Check: func(c *DNS) (err error) {
			c.Autopath.NodeCaches, err = parseService(&c.AutopathService, v1alpha1.DefaultAutopathService)
			return err
		},
	},
	{
		Path: "autopathNetworks", Flag: "autopath-network", Restart: true, At: func(c *DNS) any { return &c.AutopathNetworks },
		Usage: "`CIDR` of clients that may send a search list; repeatable; empty: the endpoints of --autopath-service",
		Check: func(c *DNS) (err error) {
			if c.Autopath.Allowed, err = parseNetworks(c.AutopathNetworks); len(c.AutopathNetworks) == 0 && len(c.Manifests) > 0 {
				c.Autopath.Allowed = loopback() // a trial on one machine: no Service has the node cache as endpoint
			}
			return err
		},
	},
}

func dnsLimitFields() []Field[DNS] {
	return limitFields(func(c *DNS) (*v1alpha1.Limits, *dnsserver.Limits) { return &c.Limits, &c.ServerLimits })
}

// dnsProcessFields are the rows below them.
var dnsProcessFields = []Field[DNS]{
	{
		Path: "lameduck", Flag: "lameduck", Restart: true, At: func(c *DNS) any { return &c.Lameduck },
		Usage: "`TIME` for which queries are answered after SIGTERM",
		Check: func(c *DNS) (err error) {
			c.LameduckTime, err = parseDuration(&c.Lameduck, v1alpha1.DefaultDNSLameduck)
			return err
		},
	},
	logFormatField(func(c *DNS) *string { return &c.LogFormat }),
}

// parseHostSuffixes parses the search domains of the nodes.
func parseHostSuffixes(texts []string) (suffixes []fqdn.Name, _ error) {
	var problems []error
	for i, text := range texts {
		name, err := fqdn.ParseName(text)
		if err != nil {
			problems = append(problems, itemError{i, fmt.Errorf("%q %w", text, err)})
		}
		suffixes = append(suffixes, name)
	}
	if n := len(texts); n > dnsserver.MaxHostSuffixes {
		problems = append(problems, fmt.Errorf("%d domains: want at most %d", n, dnsserver.MaxHostSuffixes))
	}
	return suffixes, errors.Join(problems...)
}
