// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// TestDNS64_Addresses has the examples of RFC 6052 section 2.4.
func TestDNS64_Addresses(t *testing.T) {
	for prefix, want := range map[string]string{
		"2001:db8::/32":          "2001:db8:c000:221::",
		"2001:db8:100::/40":      "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":      "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56":  "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64":  "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::1/96": "2001:db8:122:344::192.0.2.33",
		"64:ff9b::/96":           "64:ff9b::192.0.2.33",
		"64:ff9b::/95":           "",
		"64:ff9b::":              "",
		"192.0.2.0/32":           "",
		"::ffff:192.0.2.0/96":    "",
		"2001:db8:0:0:100::/96":  "",
	} {
		p, err := ParseDNS64Prefix(prefix)
		if err != nil || want == "" {
			if (err == nil) != (want != "") {
				t.Errorf("%s: %v", prefix, err)
			}
			continue
		}
		if got := embed(p, net.IPv4(192, 0, 2, 33)); !got.Equal(net.ParseIP(want)) {
			t.Errorf("%s: %v, want %s", prefix, got, want)
		}
	}
}

// TestDNS64_Validation: testdata/dns64.txtar has the answers. A client that validates does not get AAAA records without
// signatures, and AD is not set for them.
func TestDNS64_Validation(t *testing.T) {
	s := newServer(t, smallCluster, Config{DNS64Prefix: netip.MustParsePrefix("64:ff9b::/96"),
		Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			m, err := parseRecords(t, "a.example. 60 A 192.0.2.7").exchange(ctx, q)
			m.AuthenticatedData = true
			return m, err
		}})
	for _, tt := range []struct {
		do, cd bool
		want   int
	}{{false, false, 1}, {true, false, 1}, {false, true, 1}, {true, true, 0}} {
		q := new(dns.Msg).SetQuestion("a.example.", dns.TypeAAAA).SetEdns0(1232, tt.do)
		q.AuthenticatedData, q.CheckingDisabled = true, tt.cd
		m := exchangeVia(t, s, overUDP, podAddr, q)
		if len(m.Answer) != tt.want || m.AuthenticatedData != (tt.want == 0) {
			t.Errorf("DO %t, CD %t: %v", tt.do, tt.cd, m)
		}
	}
}
