// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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

// TestRules_RewriteOf: the first rule that matches counts, whatever it matches by.
func TestRules_RewriteOf(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	domain := func(labels int) (name string) {
		for range labels {
			name += string("abc"[random.IntN(3)]) + "."
		}
		return name + "test"
	}
	var r Rules
	for i := range 300 {
		w := Rewrite{Name: domain(1 + random.IntN(4)), To: fmt.Sprintf("rule%d.example", i)}
		switch random.IntN(4) {
		case 0:
			w.Name, w.Regex = "", "^[ab]"+regexp.QuoteMeta("."+w.Name)
		case 1:
			w.Name, w.To = "*."+w.Name, "*."+w.To
		}
		must.Succeed(t, r.AddRewrite(w))
	}
	for range 3000 {
		text := domain(1 + random.IntN(5))
		name := must.Get(fqdn.ParseName(text))(t)
		var want *rewrite
		for i := 0; i < len(r.rewrites) && want == nil; i++ {
			want = r.rewrites[i].apply(name, text+".")
		}
		if got := r.rewriteOf(name, text+"."); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v, want %+v", text, got, want)
		}
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
		_ = rules.AddACL(ACLRule{Action: "filter", Zone: to, Types: []string{qtype}, Networks: []string{record}})
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
