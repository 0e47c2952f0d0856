// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// maxTTL is the longest TTL of the zone's records, in seconds: an answer that is older
// than this is of no use in a cluster.
const maxTTL = 3600

// dnsSettings are what the file and the flags of a DNS server say together, checked.
type dnsSettings struct {
	v1alpha1.DNSConfiguration

	listen   []netip.AddrPort
	domain   fqdn.Name
	reverse  []netip.Prefix
	pods     zone.PodMode
	ttl      uint32
	peers    peers
	autopath dnsserver.Autopath

	snapshotWait, snapshotMaxAge, lameduck time.Duration // 0: the default

	manifestsFrom string // the flag or the field, for errors
}

// newDNSSettings fills in the defaults and checks everything; the error joins all
// problems.
func newDNSSettings(c v1alpha1.DNSConfiguration, names fieldNames) (dnsSettings, error) {
	s := dnsSettings{DNSConfiguration: c}
	var problems []error
	check := func(path string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", names.of(path), err))
		}
	}
	s.checkCluster(check)
	s.peers = readPeers(c.Upstreams, c.ResolvConf, c.StubDomains, check)
	s.checkAutopath(check)
	for _, d := range []struct {
		path, text string
		to         *time.Duration
	}{
		{"snapshot.wait", c.Snapshot.Wait, &s.snapshotWait},
		{"snapshot.maxAge", c.Snapshot.MaxAge, &s.snapshotMaxAge},
		{"lameduck", c.Lameduck, &s.lameduck},
	} {
		if d.text == "" {
			continue
		}
		var err error
		*d.to, err = time.ParseDuration(d.text)
		switch {
		case err != nil || *d.to < 0:
			check(d.path, fmt.Errorf("%q: want a time, as 10s", d.text))
		case *d.to == 0 && d.path != "lameduck": // there 0 stands for the default
			check(d.path, fmt.Errorf("%q: want a time of more than 0, as 10s", d.text))
		}
	}
	s.LogFormat = checkServing(c.HTTP, c.LogFormat, check)
	if len(c.Manifests) > 0 && (c.Kubeconfig != "" || c.Snapshot.Path != "") {
		check("manifests", fmt.Errorf("goes neither with %s nor with %s: these are about an API server", names.of("kubeconfig"), names.of("snapshot.path")))
	}
	return s, errors.Join(problems...)
}

// checkCluster checks what is about the cluster's names.
func (s *dnsSettings) checkCluster(check func(string, error)) {
	s.listen = readListen(s.Listen, v1alpha1.DefaultDNSListen, check)
	s.domain = readDomain("clusterDomain", cmp.Or(s.ClusterDomain, v1alpha1.DefaultClusterDomain), "a cluster has a domain below it", check)
	s.reverse = readNetworks("reverseCIDRs", s.ReverseCIDRs, check)
	modes := map[string]zone.PodMode{"": zone.PodsInsecure, "disabled": zone.PodsDisabled, "insecure": zone.PodsInsecure, "verified": zone.PodsVerified}
	mode, ok := modes[s.Pods]
	if !ok {
		check("pods", fmt.Errorf("%q: want disabled, insecure or verified", s.Pods))
	}
	s.pods, s.ttl = mode, v1alpha1.DefaultTTL
	if s.TTL != nil {
		s.ttl = *s.TTL
	}
	if s.ttl > maxTTL {
		check("ttl", fmt.Errorf("%d: at most %d seconds", s.ttl, maxTTL))
	}
}

// checkAutopath checks what is about search lists. It wants the cluster's domain.
func (s *dnsSettings) checkAutopath(check func(string, error)) {
	s.autopath = readAutopath(s.AutopathSuffix, s.EDNSOption, s.domain, check)
	s.autopath.Allowed = readNetworks("autopathNetworks", s.AutopathNetworks, check)
	for i, text := range s.HostSuffixes {
		name, err := fqdn.ParseName(text)
		if err != nil {
			check(fmt.Sprintf("hostSuffixes[%d]", i), fmt.Errorf("%q %w", text, err))
		}
		s.autopath.HostSuffixes = append(s.autopath.HostSuffixes, name)
	}
	if n := len(s.HostSuffixes); n > dnsserver.MaxHostSuffixes {
		check("hostSuffixes", fmt.Errorf("there are %d, at most %d", n, dnsserver.MaxHostSuffixes))
	}
}

// needRestart names the fields that count only when a server starts, and of which next
// says something else than s.
func (s dnsSettings) needRestart(next dnsSettings) []string {
	return changed([]setting{
		{"listen", s.listen, next.listen},
		{"http", s.HTTP, next.HTTP},
		{"kubeconfig", s.Kubeconfig, next.Kubeconfig},
		{"manifests", s.Manifests, next.Manifests},
		{"snapshot", s.Snapshot, next.Snapshot},
		{"clusterDomain", s.domain, next.domain},
		{"reverseCIDRs", s.reverse, next.reverse},
		{"pods", s.pods, next.pods},
		{"ttl", s.ttl, next.ttl},
		{"hostSuffixes", s.autopath.HostSuffixes, next.autopath.HostSuffixes},
		{"autopathSuffix", s.autopath.Suffix, next.autopath.Suffix},
		{"ednsOption", s.autopath.Option, next.autopath.Option},
		{"autopathNetworks", s.autopath.Allowed, next.autopath.Allowed},
		{"lameduck", s.lameduck, next.lameduck},
		{"logFormat", s.LogFormat, next.LogFormat},
	})
}
