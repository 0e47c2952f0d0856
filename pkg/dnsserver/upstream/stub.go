// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// StubDomain is a zone that servers of its own are asked for.
type StubDomain struct {
	Zone    string // as in messages: lower case, rooted
	Servers []Server
}

// ParseStubDomain reads ZONE=SERVER,SERVER...; servers are as in [ParseServer].
func ParseStubDomain(spec string) (StubDomain, error) {
	zone, list, ok := strings.Cut(spec, "=")
	if !ok {
		return StubDomain{}, fmt.Errorf("stub domain %q: write it as ZONE=ADDRESS or ZONE=ADDRESS,ADDRESS", spec)
	}
	var d StubDomain
	var err error
	if d.Zone, err = parseZone(zone); err != nil {
		return StubDomain{}, fmt.Errorf("stub domain %q: %w", spec, err)
	}
	for one := range strings.SplitSeq(list, ",") {
		s, err := ParseServer(one)
		if err != nil {
			return StubDomain{}, fmt.Errorf("stub domain %q: %w", spec, err)
		}
		if slices.Contains(d.Servers, s) {
			return StubDomain{}, fmt.Errorf("stub domain %q: server %v is there twice", spec, s)
		}
		d.Servers = append(d.Servers, s)
	}
	return d, nil
}

// parseZone returns the zone as names in messages are written, where what is not
// printable is escaped.
func parseZone(zone string) (string, error) {
	if problem := fqdn.DomainProblem(zone); problem != "" {
		return "", fmt.Errorf("the zone %q %s", zone, problem)
	}
	if zone == "." {
		return "", fmt.Errorf("the zone %q is everything: name its servers as upstream servers", zone)
	}
	if strings.ContainsFunc(zone, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", fmt.Errorf("the zone %q has characters that are not printable ASCII, or a backslash", zone)
	}
	var wire [255]byte
	end, err := dns.PackDomainName(dns.CanonicalName(zone), wire[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("the zone %q: %w", zone, err)
	}
	name, _, err := dns.UnpackDomainName(wire[:end], 0)
	return name, err
}
