// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// policies are the values of upstreamPolicy for those of forward.
var policies = map[string]string{"random": "random", "round_robin": "roundRobin", "sequential": "sequential", "least_conn": "random"}

// forward converts a stanza of the plugin forward. isHidden: an earlier stanza takes all names.
func (c *converter) forward(b *Block, d Directive, isHidden bool) {
	if isHidden {
		c.note(d, "%s: never asked, because the forward above takes all names: left out", d)
		return
	}
	servers, file := c.servers(d)
	from := forwardZone(d)
	for _, z := range b.zones() {
		if !isWithin(from, z) && !isWithin(z, from) {
			c.note(d, "%s: never asked in the zone %s: left out", d, z)
			continue
		}
		if isWithin(from, z) {
			z = from
		}
		switch {
		case z == "" && file != "":
			c.set("resolvConf", file, d)
			c.setUpstream(file, d)
		case z == "" && len(servers) > 0:
			c.set("upstreams", servers, d)
			c.setUpstream(strings.Join(servers, " "), d)
		case file != "":
			c.stubs = append(c.stubs, stub{Zone: z, Servers: []string{file}, from: d})
		case len(servers) > 0:
			c.stubs = append(c.stubs, stub{Zone: z, Servers: servers, from: d})
		}
	}
	c.forwardOptions(d, file != "" || len(servers) > 1)
}

func forwardZone(d Directive) string { return normalZone(d.Args[0]) }

// setUpstream sets the servers of the zone ., which two blocks may have, at different ports.
func (c *converter) setUpstream(servers string, d Directive) {
	if c.hasUpstream && c.upstream != servers {
		c.changes(d, "%s: a second block for the zone . has other servers: those of the first are used", d)
		return
	}
	c.upstream, c.hasUpstream = servers, true
}

// servers returns the servers of a stanza, in the form of upstreams, or the file that has them.
func (c *converter) servers(d Directive) (servers []string, file string) {
	isTCP, name := len(d.Find("force_tcp")) > 0, ""
	for _, property := range d.Find("tls_servername") {
		name = "#" + property.Args[0]
	}
	for _, to := range d.Args[1:] {
		scheme, address, ok := strings.Cut(to, "://")
		if !ok {
			scheme, address = "dns", to
		}
		address, own, hasOwn := strings.Cut(address, "%")
		certificate := name
		if hasOwn {
			certificate = "#" + own
		}
		server := address
		_, notServer := netip.ParseAddrPort(address)
		if notServer != nil { // the brackets are for a port only
			server = strings.Trim(address, "[]")
			_, notServer = netip.ParseAddr(server)
		}
		switch {
		case notServer != nil && scheme == "dns" && strings.HasPrefix(to, "/"):
			file = to
		case notServer != nil:
			c.changes(d, "forward to %s: write its address: names of servers are not resolved", to)
		case scheme == "tls":
			servers = append(servers, "tls://"+server+certificate)
		case scheme != "dns":
			c.changes(d, "forward to %s: only UDP, TCP and DNS over TLS are supported", to)
		case isTCP:
			servers = append(servers, "tcp://"+server)
		default:
			servers = append(servers, server)
		}
	}
	if file != "" && len(servers) > 0 {
		c.changes(d, "%s: servers of a file and others: only the file is used", d)
		servers = nil
	}
	if isTCP && file != "" {
		c.note(d, "forward force_tcp: the servers of a file are asked over UDP, and over TCP for long replies")
	}
	return servers, file
}

// The limits of maxQueries.
const leastQueries, mostQueries = 100, 65535

// nextRcodes are the rcodes that lead to the next server, as arguments of failover.
var nextRcodes = []string{"SERVFAIL", "REFUSED", "NOTIMP"}

func (c *converter) forwardOptions(d Directive, hasChoice bool) {
	policy := "random"
	source := Directive{File: d.File, Line: d.Line, Name: "forward without policy"}
	for _, property := range d.Body {
		switch property.Name {
		case "policy":
			policy, source = strings.Join(property.Args, " "), property
		case "max_concurrent":
			if n := number(property.Args[0]); n > 0 {
				c.set("maxQueries", min(max(n, leastQueries), mostQueries), property)
			}
		case "force_tcp", "tls_servername": // see servers
		case "failover":
			isOther := func(rcode string) bool { return !slices.Contains(nextRcodes, strings.ToUpper(rcode)) }
			if slices.ContainsFunc(property.Args, isOther) {
				c.changes(property, "%s: only SERVFAIL, REFUSED and NOTIMP lead to the next server, and always do", property)
			}
		case "tls":
			if len(property.Args) > 0 {
				c.changes(property, "%s: certificates of clients and of authorities: only those of the system are used", property)
			}
		default:
			c.explain(property, "forward "+property.Name)
		}
	}
	if hasChoice && policies[policy] != "" {
		c.set("upstreamPolicy", policies[policy], source)
	}
}

// number returns the value of an argument that the grammar has checked.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// validStubs returns the zones with servers of their own. Only the zone . can use the servers of a file.
func (c *converter) validStubs() (valid []stub) {
	slices.SortStableFunc(c.stubs, func(a, b stub) int { return strings.Compare(b.File, a.File) })
	for _, s := range c.stubs {
		servers := strings.Join(s.Servers, " ")
		same := slices.IndexFunc(valid, func(v stub) bool { return v.Zone == s.Zone })
		switch {
		case c.hasUpstream && servers == c.upstream && !isWithin(s.Zone, c.domain) && !slices.ContainsFunc(c.stubs, func(o stub) bool {
			return o.Zone != s.Zone && isWithin(s.Zone, o.Zone)
		}): // the servers are those of all other names
		case strings.HasPrefix(servers, "/"):
			c.changes(s.from, "%s to %s: only the zone . can use the servers of a file: write their addresses into stubDomains",
				s.Zone, servers)
		case same >= 0 && valid[same].File != "":
			c.note(s.from, "%s: never asked in the zone %s, which has a file: left out", s.from, s.Zone)
		case same < 0:
			valid = append(valid, s)
		case strings.Join(valid[same].Servers, " ") != servers:
			c.changes(s.from, "%s: the zone %s has other servers in line %d, which are used", s.from, s.Zone, valid[same].from.Line)
		}
	}
	return valid
}

// nodeInterface is the interface of the node cache in deploy/node-cache.
const nodeInterface = "dnsconfigurer"

// nodeFields are the fields of a NodeCacheConfiguration that a Corefile can have.
const nodeFields = "http listen clusterDomain upstreams resolvConf upstreamPolicy stubDomains chaos " +
	"dns64Prefix maxQueries queryLog interface clusterDNS"

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
