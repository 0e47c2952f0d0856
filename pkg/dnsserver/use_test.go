// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"testing"

	"github.com/miekg/dns"
)

// TestUse replaces the servers while one of them is being asked: who has asked gets what
// it says, or that it is silent, and nobody after that.
func TestUse(t *testing.T) {
	asked, release := make(chan bool), make(chan bool)
	held := func(exchange Exchange) Forwarding {
		return Forwarding{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			asked <- true
			<-release
			return exchange(ctx, q)
		}}
	}
	knows := func(addr string) Exchange { return parseRecords(t, "a.example. 60 IN A "+addr).exchange }
	silent := func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, errors.New("nobody is there") }

	s := serve(t, "loaded", held(knows("192.0.2.1")).Upstream)
	ask := func() string {
		m := s.exchange(t, "udp", new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
		if len(m.Answer) == 0 {
			return dns.RcodeToString[m.Rcode]
		}
		return m.Answer[0].(*dns.A).A.String()
	}
	askWhile := func(f Forwarding) string {
		got := make(chan string)
		go func() {
			defer close(got)
			got <- ask()
		}()
		<-asked
		s.SetForwarding(f)
		release <- true
		return <-got
	}
	for i, step := range []struct{ got, want string }{
		{askWhile(held(silent)), "192.0.2.1"},
		{askWhile(Forwarding{Upstream: knows("192.0.2.2")}), "SERVFAIL"},
		{ask(), "192.0.2.2"},
	} {
		if step.got != step.want {
			t.Errorf("step %d: %s, want %s", i, step.got, step.want)
		}
	}
	s.SetForwarding(Forwarding{Upstream: knows("192.0.2.3")})
	if got := ask(); got != "192.0.2.3" {
		t.Errorf("the cache still has %s", got)
	}
	s.SetForwarding(Forwarding{})
	if got := ask(); got != "REFUSED" {
		t.Errorf("without servers: %s", got)
	}
}
