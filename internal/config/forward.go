// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Forward is where a DNS server forwards queries.
type Forward struct {
	Upstreams  []upstream.Server
	ResolvConf string          // path of a resolv.conf with the servers if Upstreams is empty; "": there is none
	Policy     upstream.Policy // of Upstreams, the servers in ResolvConf, and Stubs
	Stubs      []upstream.StubDomain
	Cluster    []upstream.Server // servers of the cluster DNS; nil: the server itself is the cluster DNS

	ClusterReverse []netip.Prefix // whose reverse names go to Cluster, whatever Stubs has
}

// parseServers parses servers to forward to.
func parseServers(texts []string) (servers []upstream.Server, _ error) {
	var problems []error
	for i, text := range texts {
		server, err := upstream.ParseServer(text)
		if err != nil {
			problems = append(problems, itemError{i, err})
		}
		servers = append(servers, server)
	}
	return servers, errors.Join(problems...)
}

// parseResolvConf returns the path of a resolv.conf. It sets *path to the default if it is
// absent.
func parseResolvConf(path **string) string {
	if *path == nil {
		*path = new(v1alpha1.DefaultResolvConf)
	}
	return **path
}

// clusterZones are the zones of the cluster, which a stub domain cannot replace.
type clusterZones struct {
	domain  fqdn.Name
	reverse []netip.Prefix
	suffix  string // of autopath, as it is in the file; empty: the default
}

// checkStub returns an error if a stub domain would never be used.
func (c clusterZones) checkStub(stub fqdn.Name) error {
	suffix, err := fqdn.ParseName(cmp.Or(c.suffix, v1alpha1.DefaultAutopathSuffix))
	valid := err == nil && suffix != fqdn.Root // otherwise reported at its field
	switch {
	case stub == c.domain:
		return fmt.Errorf("%v is the cluster domain: choose a domain below it", stub)
	case valid && isWithin(stub, suffix):
		return fmt.Errorf("%v is in the autopath domain %v, which is never forwarded", stub, suffix)
	}
	for _, p := range c.reverse {
		if slices.Contains(zone.ReverseZones(p), stub) {
			return fmt.Errorf("%v is a reverse zone of %v in reverseCIDRs: choose a domain below it", stub, p)
		}
	}
	return nil
}

func isWithin(name, zone fqdn.Name) bool {
	_, ok := name.Within(zone)
	return ok
}

// parseStubDomains parses domains with servers of their own.
func parseStubDomains(domains []v1alpha1.StubDomain, cluster clusterZones) (stubs []upstream.StubDomain, _ error) {
	var problems []error
	for i, d := range domains {
		if len(d.Servers) == 0 {
			problems = append(problems, itemError{i, fmt.Errorf("%q has no servers", d.Zone)})
			continue
		}
		stub, err := upstream.ParseStubDomain(d.Zone + "=" + strings.Join(d.Servers, ","))
		if err == nil && slices.ContainsFunc(stubs, func(other upstream.StubDomain) bool { return other.Zone == stub.Zone }) {
			err = fmt.Errorf("duplicate zone %q: list all its servers in one place", d.Zone)
		}
		if err == nil {
			var name fqdn.Name
			if name, err = fqdn.ParseName(stub.Zone); err == nil {
				err = cluster.checkStub(name)
			}
		}
		if err != nil {
			problems = append(problems, itemError{i, err})
		}
		stubs = append(stubs, stub)
	}
	return stubs, errors.Join(problems...)
}

// limitFields returns the rows of limits. at returns the section, and where its parsed values are
// stored.
func limitFields[C any](at func(*C) (*v1alpha1.Limits, *dnsserver.Limits)) []Field[C] {
	return []Field[C]{
		{
			Path: "limits.maxQueries", Restart: true,
			At: func(c *C) any { section, _ := at(c); return &section.MaxQueries },
			Check: func(c *C) error {
				section, parsed := at(c)
				n := cmp.Or(section.MaxQueries, dnsserver.DefaultMaxQueries)
				section.MaxQueries, parsed.MaxQueries = n, n
				if n < dnsserver.MinQueries || n > dnsserver.MaxQueries {
					return fmt.Errorf("%d: want %d to %d", n, dnsserver.MinQueries, dnsserver.MaxQueries)
				}
				return nil
			},
		},
		{
			Path: "limits.maxMemory", Restart: true,
			At: func(c *C) any { section, _ := at(c); return &section.MaxMemory },
			Check: func(c *C) error {
				section, parsed := at(c)
				section.MaxMemory = cmp.Or(section.MaxMemory, octets(dnsserver.DefaultMaxMemory))
				q, err := resource.ParseQuantity(section.MaxMemory)
				if err != nil {
					return fmt.Errorf("%q is not an amount of memory such as %s", section.MaxMemory, octets(dnsserver.DefaultMaxMemory))
				}
				if n := q.Value(); n < dnsserver.MinMemory || n > dnsserver.MaxMemory {
					return fmt.Errorf("%q: want %s to %s", section.MaxMemory, octets(dnsserver.MinMemory), octets(dnsserver.MaxMemory))
				}
				parsed.MaxMemory = int(q.Value())
				return nil
			},
		},
	}
}

// octets returns an amount of memory in the form of the file.
func octets(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
