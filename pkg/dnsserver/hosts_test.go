// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestHosts_Add(t *testing.T) {
	var h Hosts
	err := h.Add("192.0.2.7 DB.example old-db.example # the database\n\n# a comment\n2001:db8::7%eth0 db.example\n192.0.2.7 db.example\n" +
		"192.0.2.300 a\n192.0.2.8\n192.0.2.7 a..b DB.example\n192.0.2.9 .\nfallthru\n" + strings.Repeat("192.0.2.9 a..b\n", 1000))
	for _, want := range []string{`line 6: "192.0.2.300" is not an IP address`,
		"line 7: 192.0.2.8 has no name", `line 8: "a..b" is not a name`, `line 9: "." is not a name`, "line 10: "} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") >= maxHostErrors {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if r := h.names["\x02db\x07example\x00"]; len(h.names) != 4 || len(r.v4) != 1 || len(r.v6) != 1 {
		t.Errorf("%+v", h.names)
	}
}

// FuzzHosts: no text panics, and each line without an error can be added again.
func FuzzHosts(f *testing.F) {
	f.Add("192.0.2.7 db.example\n::1%lo a\\046b #c\n")
	f.Fuzz(func(t *testing.T, text string) {
		var h Hosts
		err := h.Add(text)
		for line := range strings.Lines(text) {
			if again := h.AddLine(line); again != nil && err == nil {
				t.Error(again)
			}
		}
	})
}

// TestServer_Hosts: hosts win over the cluster zone, local names and upstream servers, for questions, for the targets
// of aliases and for candidates of search lists. A name with an address has no other records.
func TestServer_Hosts(t *testing.T) {
	const objects = "namespace shop\nservice shop/web 10.96.0.7\nservice shop/db external=db.example.\n" +
		"service shop/other external=x.example.\n" +
		"service shop/alias external=web.shop.svc.cluster.local.\nloaded"
	upstream := parseRecords(t, "db.example. 60 IN A 198.51.100.1\nx.example. 60 IN A 198.51.100.2\ndb.example. 60 IN MX 1 mx.example.")
	s := newTestServer(t, objects, Config{Upstream: upstream.exchange, LocalNames: true})
	h := &Hosts{TTL: 60}
	if err := h.Add("192.0.2.7 db.example a.test\n2001:db8::7 db.example\n" +
		"192.0.2.8 web.shop.svc.cluster.local\n10.96.0.7 own.example"); err != nil {
		t.Fatal(err)
	}
	s.serveOn(t, "127.0.0.1:0")
	if got := replyText(s.exchange(t, "udp", parseQuery("db.example. A", false))); !strings.Contains(got, "198.51.100.1") {
		t.Errorf("without hosts: %s", got)
	}
	s.SetHosts(h)
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for question, want := range map[string]string{
			"db.example. A": "192.0.2.7", "DB.Example. A": "DB.Example.\t60", "db.example. AAAA": "2001:db8::7",
			"db.example. MX": "", "a.test. AAAA": "", "a.test. A": "192.0.2.7", "db.example. ANY": "",
			"7.2.0.192.in-addr.arpa. PTR": "a.test.", "7.0.96.10.in-addr.arpa. PTR": "own.example.",
			reverseName("2001:db8::7") + " PTR": "db.example.",
			"web.shop.svc.cluster.local. A":     "192.0.2.8",
			"alias.shop.svc.cluster.local. A":   "192.0.2.8",
			"db.shop.svc.cluster.local. A":      "192.0.2.7", "other.shop.svc.cluster.local. A": "198.51.100.2",
			"db.example.search.shop.cluster.local.ap.k8s.io. A": "192.0.2.7",
			"x.example. A": "198.51.100.2",
		} {
			m := exchange(question)
			records := ""
			for _, rr := range m.Answer {
				records += rr.String() + "\n"
			}
			if m.Rcode != dns.RcodeSuccess || !strings.Contains(records, want) || want == "" && len(m.Answer) > 0 {
				t.Errorf("%s: got %s, want %s", question, replyText(m), want)
			}
		}
	})
	s.SetHosts(&Hosts{TTL: 60, AddressesOnly: true, names: h.names})
	for question, want := range map[string]string{
		"db.example. A": "192.0.2.7", "db.example. MX": "mx.example.", "7.0.96.10.in-addr.arpa. PTR": "web.shop.svc.cluster.local.",
	} {
		if got := replyText(s.exchange(t, "udp", parseQuery(question, false))); !strings.Contains(got, want) {
			t.Errorf("addresses only: %s: got %s, want %s", question, got, want)
		}
	}
	s.SetHosts(&Hosts{})
	if got := replyText(s.exchange(t, "udp", parseQuery("a.test. A", false))); !strings.HasPrefix(got, "NXDOMAIN") {
		t.Errorf("after the hosts: %s", got)
	}
}
