// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"slices"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var question = ask.Question{Name: "_Http._tcp.web.shop.svc.cluster.local.", Type: dns.TypeSRV}

func record(t *testing.T, text string) dns.RR {
	t.Helper()
	return must.Get(dns.NewRR(text))(t)
}

func reply(t *testing.T) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(question.Name, question.Type)
	m.Response, m.Authoritative = true, true
	m.Answer = []dns.RR{
		record(t, question.Name+" 5 IN SRV 0 50 80 a.web.shop.svc.cluster.local."),
		record(t, question.Name+" 5 IN SRV 0 50 80 b.web.shop.svc.cluster.local."),
	}
	m.Extra = []dns.RR{record(t, "a.web.shop.svc.cluster.local. 5 IN A 192.0.2.1")}
	m.Ns = []dns.RR{record(t, "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5")}
	return m
}

// TestNormal covers the differences that are allowed between servers, and those that are
// not.
func TestNormal(t *testing.T) {
	want := ask.Normal(question, reply(t))
	for name, free := range map[string]func(*dns.Msg){
		"order":           func(m *dns.Msg) { slices.Reverse(m.Answer) },
		"weight":          func(m *dns.Msg) { m.Answer[0].(*dns.SRV).Weight = 1 },
		"serial":          func(m *dns.Msg) { m.Ns[0].(*dns.SOA).Serial = 8 },
		"case of targets": func(m *dns.Msg) { m.Answer[0].(*dns.SRV).Target = "A.web.shop.svc.CLUSTER.local." },
		"case of glue":    func(m *dns.Msg) { m.Extra[0].Header().Name = "A.web.shop.svc.cluster.local." },
		"recursion":       func(m *dns.Msg) { m.RecursionAvailable = true },
		"options":         func(m *dns.Msg) { m.SetEdns0(1232, false) },
	} {
		m := reply(t)
		if free(m); !ask.Normal(question, m).Equal(want) {
			t.Errorf("%s: counts, and must not", name)
		}
	}
	for name, mistake := range map[string]func(*dns.Msg){
		"rcode":           func(m *dns.Msg) { m.Rcode = dns.RcodeNameError },
		"authority":       func(m *dns.Msg) { m.Authoritative = false },
		"record missing":  func(m *dns.Msg) { m.Answer = m.Answer[1:] },
		"record twice":    func(m *dns.Msg) { m.Answer = append(m.Answer, m.Answer[0]) },
		"port":            func(m *dns.Msg) { m.Answer[0].(*dns.SRV).Port = 8080 },
		"ttl":             func(m *dns.Msg) { m.Answer[0].Header().Ttl = 30 },
		"case of owner":   func(m *dns.Msg) { m.Answer[0].Header().Name = "_http._tcp.web.shop.svc.cluster.local." },
		"glue missing":    func(m *dns.Msg) { m.Extra = nil },
		"address of glue": func(m *dns.Msg) { m.Extra[0].(*dns.A).A[15]++ },
		"SOA missing":     func(m *dns.Msg) { m.Ns = nil },
		"SOA of another":  func(m *dns.Msg) { m.Ns[0].Header().Name = "svc.cluster.local." },
	} {
		m := reply(t)
		if mistake(m); ask.Normal(question, m).Equal(want) {
			t.Errorf("%s: would not be seen", name)
		}
	}
	if ask.Normal(question, nil).Equal(want) {
		t.Error("no reply: would not be seen")
	}
}

// TestAgree: glue may be missing from a datagram into which it does not fit, and must be
// right.
func TestAgree(t *testing.T) {
	want := reply(t)
	for range 10 {
		want.Answer = append(want.Answer, want.Answer[0])
	}
	bare, wrong := want.Copy(), want.Copy()
	bare.Extra = nil
	wrong.Extra[0].(*dns.A).A[15]++
	small, tcp, large := question, question, question
	tcp.TCP, large.Payload = true, 1232
	for _, c := range []struct {
		name string
		q    ask.Question
		got  *dns.Msg
		want bool
	}{
		{"all", small, want, true},
		{"no room", small, bare, true},
		{"room enough", large, bare, false},
		{"over TCP", tcp, bare, false},
		{"another address", small, wrong, false},
	} {
		if got := ask.Agree(c.q, want, c.got); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
