// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

func reverseName(addr string) string {
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		panic(err)
	}
	return name
}

// TestZone_Stale: an old snapshot is served with the usual TTL, but its negative TTL is at most
// 5 seconds: the smaller of TTL and minimum of the SOA record (RFC 2308 section 5).
func TestZone_Stale(t *testing.T) {
	for _, tt := range []struct{ ttl, fresh, stale uint32 }{{0, 0, 0}, {4, 4, 4}, {5, 5, 5}, {6, 6, 5}, {3600, 3600, 5}} {
		s := newTestServer(t, smallCluster, Config{})
		s.cfg.TTL = tt.ttl
		s.serveOn(t, "127.0.0.1:0")
		expectNegativeTTL := func(state string, want uint32) {
			t.Helper()
			s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
				for _, question := range []string{"none.default.svc.cluster.local. A",
					"web.default.svc.cluster.local. TXT", "1.0.97.10.in-addr.arpa. PTR"} {
					soa, ok := exchange(question).Ns[0].(*dns.SOA)
					if !ok || min(soa.Hdr.Ttl, soa.Minttl) != want {
						t.Errorf("--ttl %d, %s: %s: got %v, want a negative TTL of %d s", tt.ttl, state, question, soa, want)
					}
				}
				if a := exchange("web.default.svc.cluster.local. A"); len(a.Answer) != 1 || a.Answer[0].Header().Ttl != tt.ttl {
					t.Errorf("--ttl %d, %s: got %s, want the TTL %d", tt.ttl, state, replyText(a), tt.ttl)
				}
			})
		}
		expectNegativeTTL("fresh", tt.fresh)
		s.cfg.Zone.Update(2, func(e *zone.Edit) { e.SetStale(time.Now().Add(-time.Hour)) })
		expectNegativeTTL("stale", tt.stale)
		s.cfg.Zone.Update(3, func(e *zone.Edit) { e.SetLoaded() })
		expectNegativeTTL("fresh again", tt.fresh)
	}
}
