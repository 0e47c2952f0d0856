// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// Forward is where a DNS server forwards queries.
type Forward struct {
	Upstreams  []upstream.Server
	ResolvConf string // path of a resolv.conf with the servers if Upstreams is empty; "": there is none
	Stubs      []upstream.StubDomain
	Cluster    []upstream.Server // servers of the cluster DNS; nil: the server itself is the cluster DNS
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

// parseStubDomains parses domains with servers of their own.
func parseStubDomains(domains []v1alpha1.StubDomain) (stubs []upstream.StubDomain, _ error) {
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
		if err != nil {
			problems = append(problems, itemError{i, err})
		}
		stubs = append(stubs, stub)
	}
	return stubs, errors.Join(problems...)
}
