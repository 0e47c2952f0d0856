// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestACL: the first rule that matches a question counts. It is asked about a rewritten name, about the targets of aliases
// and about candidates of search lists. A client over IPv4 may have an IPv4-mapped address.
func TestACL(t *testing.T) {
	rules := &Rules{}
	addRules(t, []byte(`{"Action": "allow", "Zone": "ok.secret.example"}
{"Action": "block", "Zone": "Secret.example."}
{"Action": "filter", "Types": ["AAAA", "MX"], "Networks": ["192.0.2.0/24", "2001:db8::/32"]}
{"Action": "drop", "Networks": ["192.0.2.9/32"]}
{"Action": "block", "Networks": ["203.0.113.0/24"]}
`), rules.AddACL)
	addRules(t, []byte(`{"Name": "alias.example", "To": "x.secret.example"}`), rules.AddRewrite)
	addRules(t, []byte(`{"Zone": "fixed.example", "Records": ["60 IN A 192.0.2.1"]}`), rules.AddAnswer)
	s := newServer(t, smallCluster+"\nservice default/ext external=x.secret.example", Config{
		Upstream: parseRecords(t, "www.example. 60 A 198.51.100.1\nok.secret.example. 60 A 198.51.100.2").exchange,
	})
	s.SetRules(rules)
	for _, tt := range []struct{ client, question, want string }{
		{"10.244.1.7", "www.example. A", "NOERROR 1"},
		{"10.244.1.7", "x.secret.example. A", "REFUSED 0 15"},
		{"10.244.1.7", "SECRET.example. HTTPS", "REFUSED 0 15"},
		{"10.244.1.7", "xsecret.example. A", "NXDOMAIN 0"},
		{"10.244.1.7", "ok.secret.example. A", "NOERROR 1"},
		{"10.244.1.7", "alias.example. A", "REFUSED 0 15"},
		{"10.244.1.7", "ext.default.svc.cluster.local. A", "SERVFAIL 0 22"},
		{"10.244.1.7", "x.secret.example.search.default.cluster.local.ap.k8s.io. A", "SERVFAIL 0 15"},
		{"192.0.2.1", "www.example. A", "NOERROR 1"},
		{"192.0.2.1", "www.example. AAAA", "NOERROR 0 17"},
		{"192.0.2.1", "web.default.svc.cluster.local. AAAA", "NOERROR 0 17"},
		{"::ffff:192.0.2.1", "www.example. MX", "NOERROR 0 17"},
		{"2001:db8::1", "www.example. MX", "NOERROR 0 17"},
		{"192.0.2.9", "www.example. AAAA", "NOERROR 0 17"},
		{"192.0.2.9", "www.example. A", ""},
		{"192.0.2.9", "web.default.svc.cluster.local. A", ""},
		{"192.0.2.9", "web.search.default.cluster.local.ap.k8s.io. A", ""},
		{"203.0.113.5", "web.default.svc.cluster.local. A", "REFUSED 0 15"},
		{"203.0.113.5", "fixed.example. A", "REFUSED 0 15"},
		{"203.0.113.5", "web.search.default.cluster.local.ap.k8s.io. A", "REFUSED 0 15"},
		{"203.0.114.5", "fixed.example. A", "NOERROR 1"},
	} {
		wire := handlePacket(t.Context(), s, mustPack(t, parseQuery(tt.question, true)), overUDP, netip.MustParseAddr(tt.client))
		if got := denialText(t, wire); got != tt.want {
			t.Errorf("%s asks %s: %s, want %s", tt.client, tt.question, got, tt.want)
		}
	}
}

// denialText returns the rcode of a reply, the number of its answers and the code of its extended error; "": no reply.
func denialText(t *testing.T, wire []byte) string {
	t.Helper()
	if wire == nil {
		return ""
	}
	m := new(dns.Msg)
	must.Succeed(t, m.Unpack(wire))
	text := fmt.Sprint(dns.RcodeToString[m.Rcode], " ", len(m.Answer))
	for _, o := range m.IsEdns0().Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok {
			text += fmt.Sprint(" ", e.InfoCode)
		}
	}
	return text
}

// TestACL_DropOverTCP: a query that is dropped has no reply, and later queries of the connection have.
func TestACL_DropOverTCP(t *testing.T) {
	s := startServer(t, smallCluster, Config{})
	rules := &Rules{}
	addRules(t, []byte(`{"Action": "drop", "Types": ["TXT"]}`), rules.AddACL)
	s.SetRules(rules)
	conn := must.Get(dns.DialTimeout("tcp", s.addr.String(), time.Minute))(t)
	defer conn.Close()
	for _, question := range []string{"cluster.local. TXT", "cluster.local. SOA"} {
		must.Succeed(t, conn.WriteMsg(parseQuery(question, false)))
	}
	m, err := conn.ReadMsg()
	if err != nil || m.Question[0].Qtype != dns.TypeSOA {
		t.Errorf("%v, %v", m, err)
	}
	if n := s.counterSum(t, "dnsconfigurer_dns_dropped_total"); n != 1 {
		t.Errorf("%d dropped", n)
	}
}

func TestRules_AddACL_Invalid(t *testing.T) {
	for _, tt := range []struct {
		want string
		ACLRule
	}{
		{`action "": want allow`, ACLRule{}},
		{`action "Block": want allow`, ACLRule{Action: "Block"}},
		{`the zone "a..b" has an empty label`, ACLRule{Action: "block", Zone: "a..b"}},
		{`"a" is not a type`, ACLRule{Action: "block", Types: []string{"A", "a"}}},
		{`"*" is not a type`, ACLRule{Action: "block", Types: []string{"*"}}},
		{`"192.0.2.1" is not a network`, ACLRule{Action: "block", Networks: []string{"192.0.2.1"}}},
		{`"::ffff:10.0.0.0/104" is not a network`, ACLRule{Action: "block", Networks: []string{"::ffff:10.0.0.0/104"}}},
	} {
		if err := new(Rules).AddACL(tt.ACLRule); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.ACLRule, err, tt.want)
		}
	}
	for _, networks := range []int{0, maxNetworks / maxACL} {
		r := &Rules{}
		rule := ACLRule{Action: "allow", Networks: strings.Fields(strings.Repeat("192.0.2.0/24 ", networks))}
		for i := range maxACL + 1 {
			if err := r.AddACL(rule); (err == nil) != (i < maxACL) {
				t.Errorf("rule %d with %d networks: %v", i, networks, err)
			}
		}
	}
	rule := ACLRule{Action: "allow", Networks: strings.Fields(strings.Repeat("192.0.2.0/24 ", maxNetworks+1))}
	if err := new(Rules).AddACL(rule); err == nil {
		t.Errorf("%d networks are accepted", maxNetworks+1)
	}
}
