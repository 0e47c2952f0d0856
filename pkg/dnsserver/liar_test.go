// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

const (
	truth = "192.0.2.1"
	lie   = "203.0.113.66"
)

// says is a reply to q with addresses.
func says(t *testing.T, q *dns.Msg, addresses ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for _, a := range addresses {
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A " + a)
		if err != nil {
			t.Error(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

func wire(t *testing.T, m *dns.Msg) []byte {
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// oneTry is the upstream.Config.TryTimeout of tests that wait for its end, and patience
// that of those that do not.
const (
	oneTry   = 400 * time.Millisecond
	patience = 10 * time.Second
)

// believing serves a small cluster, and forwards to servers. One try is that long, and
// all take half a try more than two.
func believing(t *testing.T, try time.Duration, servers ...netip.AddrPort) *testServer {
	t.Helper()
	config := upstream.Config{TryTimeout: try, Timeout: try * 5 / 2}
	for _, addr := range servers {
		config.Servers = append(config.Servers, upstream.Server{Addr: addr})
	}
	client, err := upstream.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded", client.Exchange)
}
