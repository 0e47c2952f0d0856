// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"testing"

	"github.com/miekg/dns"
)

// TestSetForwarding replaces the servers while a query is in flight. That query gets the reply,
// or the failure, of the server that it was sent to, and the next query is sent to the new
// server. The cache keeps no reply of a replaced server.
func TestSetForwarding(t *testing.T) {
	received, release := make(chan bool), make(chan bool)
	blocking := func(exchange Exchange) Exchange {
		return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			received <- true
			<-release
			return exchange(ctx, q)
		}
	}
	serverOf := func(addr string) Exchange { return parseRecords(t, "a.example. 60 IN A "+addr).exchange }

	s := startServer(t, "loaded", Config{Upstream: blocking(serverOf("192.0.2.1"))})
	lookup := func() string {
		return addresses(s.exchange(t, "udp", new(dns.Msg).SetQuestion("a.example.", dns.TypeA)))
	}
	lookupDuring := func(f Forwarding) string {
		got := make(chan string)
		go func() {
			defer close(got)
			got <- lookup()
		}()
		<-received
		s.SetForwarding(f)
		release <- true
		return <-got
	}
	for i, step := range []struct{ got, want string }{
		{lookupDuring(Forwarding{Upstream: blocking(unreachable)}), "192.0.2.1"},
		{lookupDuring(Forwarding{Upstream: serverOf("192.0.2.2")}), "SERVFAIL"},
		{lookup(), "192.0.2.2"},
	} {
		if step.got != step.want {
			t.Errorf("step %d: got %s, want %s", i, step.got, step.want)
		}
	}
	s.SetForwarding(Forwarding{Upstream: serverOf("192.0.2.3")})
	if got := lookup(); got != "192.0.2.3" {
		t.Errorf("after SetForwarding: got %s, want 192.0.2.3", got)
	}
	s.SetForwarding(Forwarding{})
	if got := lookup(); got != "REFUSED" {
		t.Errorf("without servers: got %s, want REFUSED", got)
	}
}
