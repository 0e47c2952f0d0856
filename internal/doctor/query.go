// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// String returns what ParseQuery parses: PROTOCOL,SERVER,TYPE,NAME.
func (q Query) String() string {
	return strings.Join([]string{q.Protocol, q.Server.String(), q.Type, q.Name}, ",")
}

// ParseQuery parses the argument of a container that sends a query.
func ParseQuery(text string) (Query, error) {
	fields := strings.SplitN(text, ",", 4)
	if len(fields) != 4 {
		return Query{}, fmt.Errorf("query %q: want PROTOCOL,SERVER,TYPE,NAME", text)
	}
	q := Query{Protocol: fields[0], Type: fields[2], Name: fields[3], Means: MeansNetwork, Role: RoleFlag}
	if q.Protocol != UDP && q.Protocol != TCP {
		return q, fmt.Errorf("query %q: protocol %q: want udp or tcp", text, q.Protocol)
	}
	if q.Type != "A" && q.Type != "AAAA" {
		return q, fmt.Errorf("query %q: type %q: want A or AAAA", text, q.Type)
	}
	if _, ok := dns.IsDomainName(q.Name); !ok || !dns.IsFqdn(q.Name) {
		return q, fmt.Errorf("query %q: name %q: want a domain name with a final dot", text, q.Name)
	}
	var err error
	if q.Server, err = netip.ParseAddrPort(fields[1]); err != nil {
		return q, fmt.Errorf("query %q: server %q: want IP:PORT", text, fields[1])
	}
	return q, nil
}
