// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// newRules returns Rules with these rules, each an Answer or a Rewrite.
func newRules(t testing.TB, rules ...any) *Rules {
	t.Helper()
	r := &Rules{}
	for _, rule := range rules {
		var err error
		switch rule := rule.(type) {
		case Answer:
			err = r.AddAnswer(rule)
		case Rewrite:
			err = r.AddRewrite(rule)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRules_AddAnswer_Invalid(t *testing.T) {
	for _, tt := range []struct {
		want string
		Answer
	}{
		{"would answer all questions", Answer{}},
		{"would answer all questions", Answer{Zone: ".", Rcode: "NXDOMAIN"}},
		{`the zone "a..b" has an empty label`, Answer{Zone: "a..b"}},
		{`"aaaa" is not a type`, Answer{Type: "aaaa"}},
		{`"OPT" is not a type`, Answer{Type: "OPT"}},
		{`"ANY" is not a type`, Answer{Type: "ANY"}},
		{"missing closing )", Answer{Regex: "("}},
		{"invalid or unsupported Perl syntax", Answer{Regex: "(?!a)b"}},
		{"has 1001 octets", Answer{Regex: strings.Repeat("a", 1001)}},
		{"has 1005 octets", Answer{Type: "TXT", Records: []string{"1 IN TXT " + strings.Repeat("a", 996)}}},
		{`"NOTIMP": want NOERROR`, Answer{Type: "A", Rcode: "NOTIMP"}},
		{"none with an rcode", Answer{Type: "A", Rcode: "NXDOMAIN", Records: []string{"1 IN A 192.0.2.1"}}},
		{"no group 1", Answer{Type: "A", Records: []string{"1 IN A 192.0.2.{1}"}}},
		{"no group 2", Answer{Type: "A", Regex: "(a)", Records: []string{"1 IN A 192.0.2.{2}"}}},
		{"bad A A", Answer{Type: "A", Records: []string{"1 IN A 192.0.2"}}},
		{"several lines", Answer{Type: "TXT", Records: []string{"1 IN TXT (\n a )"}}},
		{"not a record of class IN", Answer{Type: "TXT", Records: []string{"1 CH TXT a"}}},
		{"not a record of type A or CNAME", Answer{Type: "A", Records: []string{"1 IN AAAA ::1"}}},
		{"has no other records", Answer{Type: "A", Records: []string{"1 IN A 192.0.2.1", "1 IN CNAME a."}}},
		{"at most 16 records", Answer{Type: "A", Records: make([]string, 17)}},
	} {
		if err := new(Rules).AddAnswer(tt.Answer); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.Answer, err, tt.want)
		}
	}
	r := &Rules{}
	for i := range maxAnswers + 1 {
		if err := r.AddAnswer(Answer{Type: "A"}); (err == nil) != (i < maxAnswers) {
			t.Errorf("answer %d: %v", i, err)
		}
	}
}

// TestServer_ReplacedRules: new rules and hosts take effect at once, and without them all names are answered as before. The
// golden files have the replies with rules and hosts.
func TestServer_ReplacedRules(t *testing.T) {
	upstream := parseRecords(t, "a.example. 60 IN A 198.51.100.1\na.example. 60 IN MX 1 mx.example.")
	s := newServer(t, smallCluster, Config{Upstream: upstream.exchange})
	all, addresses := &Hosts{TTL: 60}, &Hosts{TTL: 60, AddressesOnly: true}
	for _, h := range []*Hosts{all, addresses} {
		if err := h.Add("192.0.2.7 a.example\n10.96.0.7 own.example"); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		rules      *Rules
		hosts      *Hosts
		a, mx, ptr string // the replies for a.example and 10.96.0.7
	}{
		{nil, nil, "198.51.100.1", "mx.example.", "web.default.svc"},
		{newRules(t, Answer{Zone: "example", Rcode: "REFUSED"}), nil, "REFUSED", "REFUSED", "web.default.svc"},
		{newRules(t, Rewrite{Name: "a.example", To: "b.example"}), nil, "NXDOMAIN", "NXDOMAIN", "web.default.svc"},
		{newRules(t), all, "192.0.2.7", "NOERROR", "own.example."},
		{nil, addresses, "192.0.2.7", "mx.example.", "web.default.svc"},
		{nil, &Hosts{}, "198.51.100.1", "mx.example.", "web.default.svc"},
	} {
		s.SetRules(step.rules)
		s.SetHosts(step.hosts)
		for question, want := range map[string]string{
			"a.example. A": step.a, "a.example. MX": step.mx, "7.0.96.10.in-addr.arpa. PTR": step.ptr} {
			m := exchangeDirect(t, s, parseQuery(question, true))
			if got := replyText(m); !strings.Contains(got, want) || (m.Rcode == dns.RcodeRefused) != (extendedCode(m) >= 0) {
				t.Errorf("%s: got %s, want %s", question, got, want)
			}
		}
	}
}
