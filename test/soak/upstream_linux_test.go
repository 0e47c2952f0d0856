// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/miekg/dns"
)

// known is the upstream server's reply to a query. The hash of the name decides between
// addresses, with or without an alias, long lists, denials and failures.
func known(q *dns.Msg) *dns.Msg {
	name := strings.ToLower(q.Question[0].Name)
	h := fnv.New32a()
	h.Write([]byte(name))
	sum := h.Sum32()
	m := new(dns.Msg).SetReply(q)
	add := func(section *[]dns.RR, format string, args ...any) {
		if rr, err := dns.NewRR(fmt.Sprintf(format, args...)); err == nil {
			*section = append(*section, rr)
		}
	}
	address := fmt.Sprintf("198.18.%d.%d", sum>>8&0xFF, sum&0xFF)
	ttl := 1 + sum>>16&0x3FF
	switch kind := sum >> 16 % 100; {
	case kind < 40:
		add(&m.Answer, "%s %d IN A %s", name, ttl, address)
	case kind < 60:
		add(&m.Answer, "%s %d IN CNAME target-%d.example.", name, ttl, sum)
		add(&m.Answer, "target-%d.example. %d IN A %s", sum, ttl, address)
	case kind < 75:
		for i := range 1 + sum%30 {
			add(&m.Answer, "%s %d IN A 198.18.%d.%d", name, ttl, i, sum&0xFF)
		}
	case kind < 98:
		m.Rcode = dns.RcodeNameError
		add(&m.Ns, ". %d IN SOA ns.example. admin.example. %d 2 3 4 %d", ttl, sum, ttl)
	case kind < 99:
		m.Rcode = dns.RcodeServerFailure
	default:
		m.Rcode = dns.RcodeRefused
	}
	return m
}
