// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// nodeInterface is the interface of the node cache in deploy/node-cache.
const nodeInterface = "dnsconfigurer"

// nodeFields are the fields of a NodeCacheConfiguration that a Corefile can have.
const nodeFields = "http listen clusterDomain upstreams resolvConf upstreamPolicy stubDomains chaos " +
	"maxQueries queryLog interface clusterDNS"

func isReverse(z string) bool { return z == "arpa" || strings.HasSuffix(z, ".arpa") }

// isOwned reports whether a machine has an address without an interface of its own.
func isOwned(text string) bool {
	a, err := netip.ParseAddr(text)
	return err != nil || a.IsLoopback() || a.IsUnspecified()
}

// nodeCache sets the fields of a NodeCacheConfiguration, of a Corefile without the plugin kubernetes: that of NodeLocal
// DNSCache forwards the cluster domain and all reverse names to the cluster DNS.
func (c *converter) nodeCache() error {
	reverse := ""
	forwarded := slices.DeleteFunc(slices.Clone(c.stubs), func(s stub) bool { return s.File != "" })
	for _, s := range forwarded {
		if isReverse(s.Zone) {
			reverse = strings.Join(s.Servers, " ")
			break
		}
	}
	i := slices.IndexFunc(forwarded, func(s stub) bool {
		return !isReverse(s.Zone) && (s.Zone == "cluster.local" || strings.Join(s.Servers, " ") == reverse)
	})
	if i < 0 {
		return errors.New("no block has the plugin kubernetes, or forwards the cluster domain and in-addr.arpa to the same servers: " +
			"this is the Corefile neither of a cluster DNS server nor of a node cache")
	}
	cluster := forwarded[i]
	if strings.HasPrefix(cluster.Servers[0], "/") {
		return fmt.Errorf("%s:%d: the cluster domain has the servers of a file: write their addresses",
			cluster.from.File, cluster.from.Line)
	}
	c.domain = cluster.Zone
	c.set("clusterDomain", cluster.Zone, cluster.from)
	c.set("clusterDNS", cluster.Servers, cluster.from)
	c.stubs = slices.DeleteFunc(c.stubs, func(s stub) bool {
		isSame, isReverse := slices.Equal(s.Servers, cluster.Servers), s.Zone == "in-addr.arpa" || s.Zone == "ip6.arpa"
		if isReverse && !isSame {
			c.changes(s.from, "%s: reverse names are forwarded to the servers of %s", s.Zone, cluster.Zone)
		}
		return s.Zone == cluster.Zone || isReverse || isSame && isWithin(s.Zone, cluster.Zone)
	})
	if len(c.addresses) > 0 && !slices.ContainsFunc(c.addresses, isOwned) {
		c.set("interface", nodeInterface, Directive{File: cluster.from.File, Line: cluster.from.Line, Name: "bind"})
	}
	return nil
}

// dropClusterFields removes the fields that a node cache does not have.
func (c *converter) dropClusterFields() {
	for path := range strings.FieldsSeq(order) {
		f, ok := c.fields[path]
		outer, _, _ := strings.Cut(path, ".")
		if !ok || slices.Contains(strings.Fields(nodeFields), outer) {
			continue
		}
		delete(c.fields, path)
		if items, ok := f.value.([]item); ok {
			f.from = items[0].from
		}
		c.add(Note{f.from.File, f.from.Line, f.from.String() + ": a node cache has no " + outer + ": left out", outer != "lameduck"})
	}
}
