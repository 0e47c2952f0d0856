// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
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
