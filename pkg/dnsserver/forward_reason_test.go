// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// TestForward_Reason: a failure from the cache has the reason of the first one, and says that it is
// from the cache (RFC 8914 sections 2 and 4.14). No reason has an address of a server.
func TestForward_Reason(t *testing.T) {
	silent := errors.New("192.0.2.53:53: read udp 10.244.0.9:40000->192.0.2.53:53: i/o timeout")
	malformed := fmt.Errorf("192.0.2.53:53: %w", upstream.ErrMalformed)
	const network = "23 no upstream server answered"
	for _, test := range []struct {
		name          string
		rcode         int // of the upstream server, without err
		err           error
		first, second string // extended errors
	}{
		{name: "silent", err: silent, first: network, second: network + ", 13"},
		{name: "malformed", err: malformed, first: "23 the upstream server's reply is malformed",
			second: "23 the upstream server's reply is malformed, 13"},
		{name: "SERVFAIL", rcode: dns.RcodeServerFailure, second: "13"},
		{name: "REFUSED", rcode: dns.RcodeRefused}, // 13 is for SERVFAIL
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, "loaded", Config{Upstream: func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
				return new(dns.Msg).SetRcode(m, test.rcode), test.err
			}})
			rcode := test.rcode
			if test.err != nil {
				rcode = dns.RcodeServerFailure
			}
			for i, want := range []string{test.first, test.second, test.second} {
				m := exchangeDirect(t, s, newQuery("www.example.", dns.TypeA))
				if got := extendedErrors(m); m.Rcode != rcode || got != want {
					t.Errorf("query %d: got %q, want %q: %v", i+1, got, want, m)
				}
			}
			if n := exchangeDirect(t, s, new(dns.Msg).SetQuestion("www.example.", dns.TypeA)); n.IsEdns0() != nil {
				t.Errorf("an OPT record for a client without EDNS0: %v", n)
			}
		})
	}
}

// TestSearch_Reason: the failure of a search list has the reasons of the candidate.
func TestSearch_Reason(t *testing.T) {
	s := newServer(t, "namespace shop\nloaded", Config{Upstream: func(context.Context, *dns.Msg) (*dns.Msg, error) {
		return nil, errors.New("timeout")
	}})
	for i, want := range []string{"23 no upstream server answered", "23 no upstream server answered, 13"} {
		m := exchangeDirect(t, s, newQuery("www.example.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
		if got := extendedErrors(m); m.Rcode != dns.RcodeServerFailure || got != want {
			t.Errorf("query %d: got %q, want %q: %v", i+1, got, want, m)
		}
	}
}

// TestAlias_Reason: ExternalNames that are a loop, or a chain of more than 10, fail with a reason.
// NODATA would be a permanent failure for glibc.
func TestAlias_Reason(t *testing.T) {
	cluster := "namespace default\nservice default/c0 10.96.0.7\n" +
		"service default/loop external=loop.default.svc.cluster.local\n"
	for i := range 11 {
		cluster += fmt.Sprintf("service default/c%d external=c%d.default.svc.cluster.local\n", i+1, i)
	}
	s := newServer(t, cluster+"loaded", Config{})
	for name, want := range map[string]string{"c9": "10.96.0.7", "c10": "10.96.0.7", "c11": "SERVFAIL", "loop": "SERVFAIL"} {
		m := exchangeDirect(t, s, newQuery(name+".default.svc.cluster.local.", dns.TypeA))
		if failed := extendedCode(m) == int(dns.ExtendedErrorCodeOther); addresses(m) != want || failed != (want == "SERVFAIL") {
			t.Errorf("%s: got %v, want %s", name, m, want)
		}
	}
}
