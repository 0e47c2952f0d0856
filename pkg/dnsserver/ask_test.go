// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// everyTransport calls f for UDP and TCP, each with and without EDNS0. ask sends
// "NAME TYPE".
func (s *testServer) everyTransport(t *testing.T, f func(t *testing.T, edns bool, ask func(question string) *dns.Msg)) {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		for _, edns := range []bool{false, true} {
			how := network
			if edns {
				how += " EDNS0"
			}
			t.Run(how, func(t *testing.T) {
				f(t, edns, func(question string) *dns.Msg { return s.exchange(t, network, asking(question, edns)) })
			})
		}
	}
}

// asking is the query for "NAME TYPE".
func asking(question string, edns bool) *dns.Msg {
	name, qtype, _ := strings.Cut(question, " ")
	q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	if edns {
		q.SetEdns0(1232, false)
	}
	return q
}

// direct asks the server without a socket, as is needed where the time is a fake.
func (s *testServer) direct(t testing.TB, q *dns.Msg, via transport) *dns.Msg {
	t.Helper()
	packet, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(handled(t.Context(), s.Server, packet, via, pod())); err != nil {
		t.Fatal(err)
	}
	return reply
}

// why is the code of the extended error in a reply, -1 if there is none.
func why(m *dns.Msg) int {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return int(e.InfoCode)
			}
		}
	}
	return -1
}

// count is the sum of a metric's counters with the labels, each as name=value.
func (s *testServer) count(t testing.TB, metric string, labels ...string) int {
	t.Helper()
	families, err := s.counted.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var has strings.Builder
			for _, l := range m.GetLabel() {
				has.WriteString(" " + l.GetName() + "=" + l.GetValue() + " ")
			}
			matches := true
			for _, want := range labels {
				matches = matches && strings.Contains(has.String(), " "+want+" ")
			}
			if matches {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}
