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

// TestServer_Answers: answers win over hosts, the cluster zone, local names and upstream servers, also for the targets of
// aliases and for candidates of search lists. The first one that matches a question counts.
func TestServer_Answers(t *testing.T) {
	const objects = "namespace shop\nservice shop/web 10.96.0.7 fd00::7\nservice shop/ext external=x.lab.example.\n" +
		"service shop/loop external=loop.example.\nloaded"
	upstream := parseRecords(t, "x.lab.example. 60 IN A 198.51.100.1\nwww.example. 60 IN A 198.51.100.2\n"+
		"www.example. 60 IN AAAA 2001:db8::2\nwww.example. 60 IN MX 1 mx.example.\ndenied.example. 60 IN A 198.51.100.3")
	s := newTestServer(t, objects, Config{Upstream: upstream.exchange, LocalNames: true})
	s.serveOn(t, "127.0.0.1:0")
	h := &Hosts{TTL: 60}
	if err := h.Add("192.0.2.7 db.example ip-1.lab.example\n2001:db8::7 db.example"); err != nil {
		t.Fatal(err)
	}
	s.SetHosts(h)
	s.SetRules(newRules(t,
		Answer{Type: "AAAA"},
		Answer{Zone: "lab.example", Type: "A", Regex: `^ip-(\d+)-?(?P<last>\d*)\.lab\.example\.$`,
			Records: []string{"60 IN A 192.0.{1}.{last}", "60 IN A 192.0.2.1"}},
		Answer{Zone: "lab.example", Regex: `^mail\.`,
			Records: []string{"60 IN MX 5 {0}lab.example.", "30 IN TXT \"{json: {9x}}\"", "60 IN A 192.0.2.2"}},
		Answer{Zone: "lab.example", Regex: `^alias(-\w+)?\.`, Records: []string{"60 IN CNAME www.example."}},
		Answer{Zone: "loop.example", Records: []string{"60 IN CNAME loop.shop.svc.cluster.local."}},
		Answer{Zone: "denied.example", Rcode: "NXDOMAIN"},
		Answer{Zone: "denied.example", Type: "A", Records: []string{"60 IN A 192.0.2.9"}},
		Answer{Zone: "refused.example", Rcode: "REFUSED"},
		Answer{Zone: "failed.example", Rcode: "SERVFAIL"},
	))
	s.forEachTransport(t, func(t *testing.T, edns bool, exchange func(string) *dns.Msg) {
		for _, tt := range []struct{ question, want string }{
			{"www.example. AAAA", "NOERROR aa\nauthority: . 5 IN SOA"},
			{"web.shop.svc.cluster.local. AAAA", "NOERROR aa\nauthority: . 5 IN SOA"},
			{"db.example. AAAA", "NOERROR aa\nauthority: . 5 IN SOA"},
			{"x.test. AAAA", "NOERROR aa\nauthority: . 5 IN SOA"},
			{"www.example. A", "NOERROR\nwww.example. 60 IN A 198.51.100.2"},
			{"www.example. ANY", "NOERROR\nwww.example. 3600 IN HINFO"},
			{"IP-2-9.Lab.example. A",
				"NOERROR aa\nIP-2-9.Lab.example. 60 IN A 192.0.2.1\nIP-2-9.Lab.example. 60 IN A 192.0.2.9"},
			{"ip-2.lab.example. A", "SERVFAIL"},
			{"ip-2-9.lab.example. TXT", "NXDOMAIN\nauthority: example."},
			{"x.lab.example. A", "NOERROR\nx.lab.example. 60 IN A 198.51.100.1"},
			{"mail.lab.example. MX", "NOERROR aa\nmail.lab.example. 60 IN MX 5 mail.lab.example."},
			{"mail.lab.example. TXT", "NOERROR aa\nmail.lab.example. 30 IN TXT \"{json: {9x}}\""},
			{"mail.lab.example. PTR", "NOERROR aa\nauthority: lab.example. 5 IN SOA"},
			{"mail.lab.example. ANY", "NOERROR aa\nmail.lab.example. 3600 IN HINFO"},
			{"alias.lab.example. A",
				"NOERROR aa\nalias.lab.example. 60 IN CNAME www.example.\nwww.example. 60 IN A 198.51.100.2"},
			{"alias-b.lab.example. MX",
				"NOERROR aa\nalias-b.lab.example. 60 IN CNAME www.example.\nwww.example. 60 IN MX 1"},
			{"alias-b.lab.example. CNAME", "NOERROR aa\nalias-b.lab.example. 60 IN CNAME www.example.\n"},
			{"denied.example. A", "NXDOMAIN aa\nauthority: denied.example. 5 IN SOA"},
			{"a.b.denied.example. ANY", "NXDOMAIN aa\nauthority: denied.example. 5 IN SOA"},
			{"refused.example. A", "REFUSED"},
			{"failed.example. A", "SERVFAIL"},
			{"loop.example. A", "SERVFAIL"},
			{"ext.shop.svc.cluster.local. A",
				"NOERROR aa\next.shop.svc.cluster.local. 5 IN CNAME x.lab.example.\nx.lab.example. 60 IN A 198.51.100.1"},
			{"web.search.shop.cluster.local.ap.k8s.io. A",
				"NOERROR aa\nweb.search.shop.cluster.local.ap.k8s.io. 5 IN CNAME web.shop.svc.cluster.local.\n"},
			{"web.search.shop.cluster.local.ap.k8s.io. AAAA",
				"NOERROR aa\nweb.search.shop.cluster.local.ap.k8s.io. 5 IN CNAME web.shop.svc.cluster.local.\nauthority: . 5"},
			{"ip-3-9.lab.example.search.shop.cluster.local.ap.k8s.io. A",
				"NOERROR aa\nip-3-9.lab.example.search.shop.cluster.local.ap.k8s.io. 5 IN CNAME ip-3-9.lab.example.\n" +
					"ip-3-9.lab.example. 5 IN A 192.0.3.9"},
			{"denied.example.search.shop.cluster.local.ap.k8s.io. A", "NXDOMAIN"},
		} {
			m := exchange(tt.question)
			if got := replyText(m); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: got %s, want %s", tt.question, got, tt.want)
			}
			if tt.question == "refused.example. A" && edns && extendedCode(m) != int(dns.ExtendedErrorCodeBlocked) {
				t.Errorf("extended errors %s", extendedErrors(m))
			}
		}
	})
	s.SetRules(newRules(t))
	if got := replyText(s.exchange(t, "udp", parseQuery("denied.example. A", false))); !strings.Contains(got, "198.51.100.3") {
		t.Errorf("after the rules: %s", got)
	}
}
