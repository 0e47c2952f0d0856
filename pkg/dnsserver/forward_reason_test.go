// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestForward_Reason: the reason of a failure has no address of a server, and a failure from
// the cache says so (RFC 8914 section 4.14).
func TestForward_Reason(t *testing.T) {
	s := newServer(t, "loaded", Config{Upstream: func(context.Context, *dns.Msg) (*dns.Msg, error) {
		return nil, errors.New("192.0.2.53:53: read udp 10.244.0.9:40000->192.0.2.53:53: i/o timeout")
	}})
	for i, want := range []uint16{dns.ExtendedErrorCodeNetworkError, dns.ExtendedErrorCodeCachedError} {
		m := exchangeDirect(t, s, newQuery("www.example.", dns.TypeA))
		ede, ok := m.IsEdns0().Option[0].(*dns.EDNS0_EDE)
		if m.Rcode != dns.RcodeServerFailure || !ok || ede.InfoCode != want || strings.ContainsAny(ede.ExtraText, "0123456789") {
			t.Errorf("query %d: %v", i+1, m)
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
	for name, want := range map[string]string{"c10": "10.96.0.7", "c11": "SERVFAIL", "loop": "SERVFAIL"} {
		m := exchangeDirect(t, s, newQuery(name+".default.svc.cluster.local.", dns.TypeA))
		if failed := extendedCode(m) == int(dns.ExtendedErrorCodeOther); addresses(m) != want || failed != (want == "SERVFAIL") {
			t.Errorf("%s: got %v, want %s", name, m, want)
		}
	}
}
