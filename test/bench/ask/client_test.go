// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// TestAsk_InvalidReply: an invalid reply is an error, no reply is not.
func TestAsk_InvalidReply(t *testing.T) {
	q := ask.Question{Name: "n1.example.com.", Type: dns.TypeA}
	silent := dnstest.Start(t, dnstest.Reply(func(*dns.Msg) *dns.Msg { return nil }))
	if m, err := ask.One(silent.Addr.String(), q); m != nil || err != nil {
		t.Error("silence:", m, err)
	}
	for want, reply := range map[string]func(*dns.Msg) *dns.Msg{
		"another query": func(q *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetReply(q)
			m.Question[0].Name = "n2.example.com."
			return m
		},
		"EDNS": func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetReply(q).SetEdns0(1232, false) },
		"600 bytes": func(q *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetReply(q)
			text := dns.TXT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeTXT, Class: dns.ClassINET},
				Txt: []string{strings.Repeat("x", 255), strings.Repeat("x", 255)}}
			m.Answer = []dns.RR{&text}
			text.Txt = append(text.Txt, strings.Repeat("x", 600-m.Len()-1))
			return m
		},
	} {
		if _, err := ask.One(dnstest.Start(t, dnstest.Reply(reply)).Addr.String(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %q", err, want)
		}
	}
}
