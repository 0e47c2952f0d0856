// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// errNoClusterDNS: there is no default, for a cache that asks a wrong server denies what
// exists.
var errNoClusterDNS = errors.New("whom to ask for the cluster's names is not said; give --cluster-dns, or clusterDNS in the configuration")

// maxInterface is the longest name of a network interface, in octets (IFNAMSIZ, less the
// last NUL).
const maxInterface = 15

// nodeCacheSettings are what the file and the flags of a cache on a node say together,
// checked.
type nodeCacheSettings struct {
	v1alpha1.NodeCacheConfiguration

	listen   []netip.AddrPort
	autopath dnsserver.Autopath
	peers    peers
}

// newNodeCacheSettings fills in the defaults and checks everything; the error joins all
// problems.
func newNodeCacheSettings(c v1alpha1.NodeCacheConfiguration, names fieldNames) (nodeCacheSettings, error) {
	s := nodeCacheSettings{NodeCacheConfiguration: c}
	var problems []error
	check := func(path string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", names.of(path), err))
		}
	}
	s.listen = readListen(c.Listen, v1alpha1.DefaultNodeCacheListen, check)
	s.checkInterface(check)
	s.peers = readPeers(c.Upstreams, c.ResolvConf, c.StubDomains, check)
	s.peers.cluster = &clusterPeers{
		servers: readServers("clusterDNS", c.ClusterDNS, check),
		domain:  readDomain("clusterDomain", cmp.Or(c.ClusterDomain, v1alpha1.DefaultClusterDomain), "a cluster has a domain below it", check),
	}
	s.autopath = readAutopath(c.AutopathSuffix, c.EDNSOption, s.peers.cluster.domain, check)
	s.autopath.Allowed = []netip.Prefix{} // pods send their lists in names alone
	s.peers.cluster.option = s.autopath.Option
	s.LogFormat = checkServing(c.HTTP, c.LogFormat, check)
	return s, errors.Join(problems...)
}

// checkInterface checks that the interface can be made, and get the addresses.
func (s *nodeCacheSettings) checkInterface(check func(string, error)) {
	name := s.Interface
	if name == "" {
		return
	}
	if len(name) > maxInterface || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' || r == '%' }) {
		check("interface", fmt.Errorf("%q is not the name of a network interface, at most %d octets without blanks and /", name, maxInterface))
	}
	for i, l := range s.listen {
		if a := l.Addr(); a.IsUnspecified() || a.IsLoopback() || a.Zone() != "" {
			check(fmt.Sprintf("listen[%d]", i), fmt.Errorf("%s is no address for an interface of one's own", a))
		} else if a.Is6() && a.IsLinkLocalUnicast() {
			check(fmt.Sprintf("listen[%d]", i), fmt.Errorf("%s does not do, for pods would have to name an interface; take one of fc00::/7", a))
		}
	}
}

// needRestart names the fields that count only when a server starts, and of which next
// says something else than s.
func (s nodeCacheSettings) needRestart(next nodeCacheSettings) []string {
	if next.peers.cluster == nil { // it could not be read
		return nil
	}
	return changed([]setting{
		{"listen", s.listen, next.listen},
		{"interface", s.Interface, next.Interface},
		{"http", s.HTTP, next.HTTP},
		{"clusterDomain", s.peers.cluster.domain, next.peers.cluster.domain},
		{"autopathSuffix", s.autopath.Suffix, next.autopath.Suffix},
		{"ednsOption", s.autopath.Option, next.autopath.Option},
		{"logFormat", s.LogFormat, next.LogFormat},
	})
}
