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

// StubDomain is a zone with upstream servers of its own.
type StubDomain struct {
	Zone    string // presentation format, lower case, rooted
	Servers []Server
}

// ParseStubDomain parses ZONE=SERVER[,SERVER...], with servers as in [ParseServer].
func ParseStubDomain(spec string) (StubDomain, error) {
	zone, list, ok := strings.Cut(spec, "=")
	if !ok {
		return StubDomain{}, fmt.Errorf("stub domain %q: want ZONE=ADDRESS[,ADDRESS...]", spec)
	}
	var d StubDomain
	var err error
	if d.Zone, err = parseZone(zone); err != nil {
		return StubDomain{}, fmt.Errorf("stub domain %q: %w", spec, err)
	}
	for text := range strings.SplitSeq(list, ",") {
		s, err := ParseServer(text)
		if err != nil {
			return StubDomain{}, fmt.Errorf("stub domain %q: %w", spec, err)
		}
		if slices.Contains(d.Servers, s) {
			return StubDomain{}, fmt.Errorf("stub domain %q: duplicate server %v", spec, s)
		}
		d.Servers = append(d.Servers, s)
	}
	return d, nil
}

// parseZone returns the zone in the presentation format of the library, which escapes
// special characters such as ";".
func parseZone(zone string) (string, error) {
	if problem := fqdn.DomainProblem(zone); problem != "" {
		return "", fmt.Errorf("zone %q %s", zone, problem)
	}
	if zone == "." {
		return "", fmt.Errorf("zone %q contains every name: configure its servers as upstream servers", zone)
	}
	if strings.ContainsFunc(zone, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", fmt.Errorf("zone %q has a backslash or a character that is not printable ASCII", zone)
	}
	var wire [255]byte
	end, err := dns.PackDomainName(dns.CanonicalName(zone), wire[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("zone %q: %w", zone, err)
	}
	name, _, err := dns.UnpackDomainName(wire[:end], 0)
	return name, err
}
