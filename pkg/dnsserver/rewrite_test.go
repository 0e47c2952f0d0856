// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func TestRules_AddRewrite_Invalid(t *testing.T) {
	for _, tt := range []struct {
		want string
		Rewrite
	}{
		{"either a name or a regex", Rewrite{To: "a"}},
		{"either a name or a regex", Rewrite{Name: "a", Regex: "a", To: "a"}},
		{`the name "a..b" has an empty label`, Rewrite{Name: "a..b", To: "a"}},
		{`the name "a..b" has an empty label`, Rewrite{Name: "a", To: "a..b"}},
		{`the name "" is empty`, Rewrite{Name: "a"}},
		{`the name "." is the root`, Rewrite{Name: ".", To: "a"}},
		{`the name "." is the root`, Rewrite{Name: "a", To: "."}},
		{`the name "" is empty`, Rewrite{Name: "*.", To: "*.a"}},
		{`"b": want a domain after *.`, Rewrite{Name: "*.a", To: "b"}},
		{"missing closing )", Rewrite{Regex: "(", To: "a"}},
		{"no group 1", Rewrite{Regex: "a", To: "{1}"}},
		{"has an empty label", Rewrite{Regex: "(a)", To: "a..{1}"}},
	} {
		if err := new(Rules).AddRewrite(tt.Rewrite); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %s", tt.Rewrite, err, tt.want)
		}
	}
	r := &Rules{}
	for i := range maxRewrites + 1 {
		if err := r.AddRewrite(Rewrite{Name: "a", To: "b"}); (err == nil) != (i < maxRewrites) {
			t.Errorf("rewrite %d: %v", i, err)
		}
	}
}

// TestServer_Rewrite: a rewritten name is looked up as any other, and the reply has the name of the question. Names of
// search lists and targets of aliases are rewritten, too.
func TestServer_Rewrite(t *testing.T) {
	const objects = "namespace shop\nservice shop/web 10.96.0.7 http:tcp:80\nservice shop/db\n" +
		"slice shop/db 10.244.0.1=a 10.244.0.2=b http:tcp:80\n" +
		"service shop/ext external=shop.example.\nservice shop/loop external=loop.example.\nloaded"
	upstream := parseRecords(t, "www.example. 60 IN A 198.51.100.2\nalias.example. 60 IN CNAME www.example.\n"+
		"mail.example. 60 IN MX 1 x.mail.example.\nmail.example. 60 IN MX 2 other.example.\nback.example. 60 IN PTR a.to.example.\n"+
		"a.to.example. 60 IN CNAME b.to.example.\nb.to.example. 60 IN A 198.51.100.3\nto.example. 60 IN A 198.51.100.4")
	s := newTestServer(t, objects, Config{Upstream: upstream.exchange, LocalNames: true})
	s.serveOn(t, "127.0.0.1:0")
	h := &Hosts{TTL: 60}
	if err := h.Add("192.0.2.7 db.example"); err != nil {
		t.Fatal(err)
	}
	s.SetHosts(h)
	s.SetRules(newRules(t,
		Rewrite{Name: "Shop.example.", To: "WEB.shop.svc.cluster.local"},
		Rewrite{Name: "shop.example", To: "www.example"}, // never: the first one counts
		Rewrite{Name: "web.shop.svc.cluster.local", To: "www.example"},
		Rewrite{Name: "*.in.test", To: "*.shop.svc.cluster.local"},
		Rewrite{Name: "*.from.example", To: "*.to.example"},
		Rewrite{Name: "m.example", To: "mail.example"},
		Rewrite{Name: "h.example", To: "db.example"},
		Rewrite{Name: "n.example", To: "v6.example"},
		Rewrite{Name: "path.example", To: "web.search.shop.cluster.local.ap.k8s.io"},
		Rewrite{Name: "loop.example", To: "loop.shop.svc.cluster.local"},
		Rewrite{Name: "self.example", To: "self.example"},
		Rewrite{Regex: `^(?P<name>[a-z]*)-?(\d*)\.re\.example`, To: "{name}.{2}example"},
		Answer{Zone: "v6.example", Type: "A"},
	))
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for _, tt := range []struct{ question, want string }{
			{"SHOP.example. A", "NOERROR aa\nSHOP.example. 5 IN A 10.96.0.7\n"},
			{"shop.example. AAAA", "NOERROR aa\nauthority: shop.example. 5 IN SOA"},
			{"_http._tcp.shop.example. SRV", "NXDOMAIN"}, // the rule is of one name
			{"web.shop.svc.cluster.local. A", "NOERROR\nweb.shop.svc.cluster.local. 60 IN A 198.51.100.2\n"},
			{"DB.in.test. A", "NOERROR aa\nDB.in.test. 5 IN A 10.244.0.1\nDB.in.test. 5 IN A 10.244.0.2\n"},
			{"_http._tcp.db.in.test. SRV", "NOERROR aa\n_http._tcp.db.in.test. 5 IN SRV 0 50 80 a.db.in.test.\n" +
				"_http._tcp.db.in.test. 5 IN SRV 0 50 80 b.db.in.test.\n" +
				"additional: a.db.in.test. 5 IN A 10.244.0.1\nadditional: b.db.in.test. 5 IN A 10.244.0.2\n"},
			{"none.in.test. A", "NXDOMAIN aa\nauthority: none.in.test. 5 IN SOA ns.dns.cluster.local."},
			{"in.test. A", "NXDOMAIN aa\nauthority: test."},
			{"a.from.example. A", "NOERROR\na.from.example. 60 IN CNAME b.from.example.\nb.from.example. 60 IN A 198.51.100.3\n"},
			{"from.example. A", "NXDOMAIN\nauthority: example."},
			{"m.example. MX", "NOERROR\nm.example. 60 IN MX 1 x.m.example.\nm.example. 60 IN MX 2 other.example.\n"},
			{"h.example. A", "NOERROR aa\nh.example. 60 IN A 192.0.2.7\n"},
			{"n.example. A", "NOERROR aa\nauthority: n.example. 5 IN SOA"},
			{"n.example. AAAA", "NXDOMAIN\nauthority: example."},
			{"path.example. A", "REFUSED"}, // an expansion could come to the rule again
			{"self.example. A", "NXDOMAIN\nauthority: example."},
			{"www.re.example. A", "NOERROR\nwww.re.example. 60 IN A 198.51.100.2\n"},
			{"alias.re.example. A", "NOERROR\nalias.re.example. 60 IN CNAME www.example.\nwww.example. 60 IN A 198.51.100.2\n"},
			{"www-1.re.example.org. A", "NXDOMAIN"}, // www.1example
			{"-1.re.example. A", "SERVFAIL"},
			{"loop.example. A", "SERVFAIL"},
			{"ext.shop.svc.cluster.local. A",
				"NOERROR aa\next.shop.svc.cluster.local. 5 IN CNAME shop.example.\nshop.example. 5 IN A 10.96.0.7\n"},
			{"shop.example.search.shop.cluster.local.ap.k8s.io. A",
				"NOERROR aa\nshop.example.search.shop.cluster.local.ap.k8s.io. 5 IN CNAME shop.example.\nshop.example. 5 IN A 10.96.0.7\n"},
			{"web.search.shop.cluster.local.ap.k8s.io. A", "NOERROR aa\nweb.search.shop.cluster.local.ap.k8s.io. 5 IN CNAME " +
				"web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 60 IN A 198.51.100.2\n"},
			{strings.Repeat(strings.Repeat("x", 61)+".", 3) + strings.Repeat("x", 50) + ".in.test. A", "SERVFAIL"}, // too long
		} {
			if got := replyText(exchange(tt.question)); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: got %s, want %s", tt.question, got, tt.want)
			}
		}
	})
	s.SetRules(nil)
	if got := replyText(s.exchange(t, "udp", parseQuery("shop.example. A", false))); !strings.HasPrefix(got, "NXDOMAIN") {
		t.Errorf("after the rules: %s", got)
	}
}

// FuzzRules: no rule and no name panics, and all replies are messages with the question of the query.
func FuzzRules(f *testing.F) {
	f.Add("*.a.example", "", "*.b.example", "c.example", "A", "", "60 IN A 192.0.2.1", "x.a.example")
	f.Add("", `^(.*)\.a\.(b+)\.$`, "{1}.{2}.example", "", "TXT", `(?P<x>.)`, "1 IN TXT {x}{1}{0}", "y.x.a.b")
	f.Add("", "(.*)", "{1}"+strings.Repeat("a", 63)+"."+strings.Repeat("{1}", 8), "", "CNAME", "(.*)",
		"1 IN CNAME {1}", "\\032\\000\\.;a.b")
	upstream := recordSet{&dns.MX{Hdr: header("x.b.example.", dns.TypeMX, 60), Mx: "y.x.b.example."}}
	s := newServer(f, smallCluster, Config{Upstream: upstream.exchange, LocalNames: true})
	f.Fuzz(func(t *testing.T, name, regex, to, zone, qtype, pattern, record, queryName string) {
		rules := &Rules{}
		_ = rules.AddRewrite(Rewrite{Name: name, Regex: regex, To: to})
		_ = rules.AddAnswer(Answer{Zone: zone, Type: qtype, Regex: pattern, Records: []string{record}})
		s.SetRules(rules)
		question, err := fqdn.ParseName(queryName)
		if err != nil {
			return
		}
		for _, t16 := range []uint16{dns.TypeA, dns.TypeMX, dns.TypeTXT, dns.TypeCNAME, dns.TypeANY} {
			q := new(dns.Msg).SetQuestion(question.String(), t16)
			reply := exchangeDirect(t, s, q) // fails if the reply is not a message
			if got, err := fqdn.ParseName(reply.Question[0].Name); err != nil || got != question {
				t.Errorf("question %v of the reply to %v", reply.Question, q.Question)
			}
			for _, rr := range reply.Answer {
				if _, err := fqdn.ParseName(rr.Header().Name); err != nil {
					t.Errorf("%v: %v", rr, err)
				}
			}
		}
	})
}

// BenchmarkAnswer_Rules is BenchmarkAnswer with 1,000 hosts, and also with 200 rewrites and an answer.
func BenchmarkAnswer_Rules(b *testing.B) {
	s := newServer(b, benchCluster(10_000), Config{Upstream: parseRecords(b, "www.example. 86400 A 192.0.2.1").exchange})
	h := &Hosts{}
	for i := range 1000 {
		if err := h.AddLine(fmt.Sprintf("192.0.2.%d h%d.example", i%256, i)); err != nil {
			b.Fatal(err)
		}
	}
	s.SetHosts(h)
	rules := newRules(b, Answer{Type: "TXT"})
	for i := range 50 {
		for _, w := range []Rewrite{
			{Name: fmt.Sprintf("a%d.example", i), To: "web.default.svc.cluster.local"},
			{Name: fmt.Sprintf("*.b%d.example", i), To: "*.default.svc.cluster.local"},
			{Regex: fmt.Sprintf(`^(.*)\.c%d\.example\.$`, i), To: "{1}.default.svc.cluster.local"},
			{Regex: fmt.Sprintf(`(.*)-d%d\.svc\.cluster`, i), To: "{1}.default.svc.cluster.local"},
		} {
			if err := rules.AddRewrite(w); err != nil {
				b.Fatal(err)
			}
		}
	}
	for what, packet := range benchQueries(b, s) {
		for name, r := range map[string]*Rules{"none": nil, "200": rules} {
			s.SetRules(r)
			b.Run("what="+what+"/rules="+name, func(b *testing.B) {
				buf, q := make([]byte, 0, maxUDP), &query{client: podAddr, received: time.Now()}
				b.ReportAllocs()
				for b.Loop() {
					r, _ := s.handle(context.Background(), q, packet, buf)
					s.metrics.observe(overUDP, r, 0)
				}
			})
		}
	}
}
