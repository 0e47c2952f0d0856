// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// peers are the other servers that a DNS server asks, as its configuration says.
type peers struct {
	upstreams  []upstream.Server
	resolvConf string // lists them where upstreams has none; "": there is no file
	stubs      []upstream.StubDomain
	cluster    *clusterPeers // nil: the server is the cluster DNS itself
}

// clusterPeers are the servers that know the names of the cluster.
type clusterPeers struct {
	servers []upstream.Server
	domain  fqdn.Name
	option  uint16 // by which search lists are sent
}

// readPeers checks who is asked for the names of others.
func readPeers(upstreams []string, resolvConf *string, stubs []v1alpha1.StubDomain, check func(string, error)) peers {
	p := peers{upstreams: readServers("upstreams", upstreams, check), resolvConf: v1alpha1.DefaultUpstreamConf}
	if resolvConf != nil {
		p.resolvConf = *resolvConf
	}
	for i, d := range stubs {
		path := fmt.Sprintf("stubDomains[%d]", i)
		if len(d.Servers) == 0 {
			check(path, fmt.Errorf("%q has no servers", d.Zone))
			continue
		}
		stub, err := upstream.ParseStubDomain(d.Zone + "=" + strings.Join(d.Servers, ","))
		check(path, err)
		if slices.ContainsFunc(p.stubs, func(other upstream.StubDomain) bool { return err == nil && other.Zone == stub.Zone }) {
			check(path, fmt.Errorf("%q is there twice: name all its servers in one place", d.Zone))
		}
		p.stubs = append(p.stubs, stub)
	}
	return p
}

func readServers(path string, texts []string, check func(string, error)) (servers []upstream.Server) {
	for i, text := range texts {
		server, err := upstream.ParseServer(text)
		check(fmt.Sprintf("%s[%d]", path, i), err)
		servers = append(servers, server)
	}
	return servers
}

// stubDomains reads flags ZONE=ADDR,.. as the file has them. They are checked later.
func stubDomains(specs []string) (list []v1alpha1.StubDomain) {
	for _, s := range specs {
		stub := v1alpha1.StubDomain{}
		zone, servers, found := strings.Cut(s, "=")
		if stub.Zone = zone; found {
			stub.Servers = strings.Split(servers, ",")
		}
		list = append(list, stub)
	}
	return list
}
