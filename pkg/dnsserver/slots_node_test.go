// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestNodeCache_RefusalNotCached: all pods of a node are one client of the cluster DNS. While the node
// has its share there, the cluster DNS refuses queries for names that other servers answer. Such a
// refusal says nothing about the name: it is not cached, and a stale answer stays in use. So a pod
// cannot make a name fail for longer than the share is used up.
func TestNodeCache_RefusalNotCached(t *testing.T) {
	node := netip.MustParseAddr("10.0.0.1") // the client that the cluster DNS sees
	for _, tt := range []struct {
		name, question, flood string
		qtype                 uint16
		share                 int // queries that wait for the node
	}{
		{"ExternalName", "ext.shop.svc.cluster.local. A", "dead.example.", dns.TypeA, 1017},
		{"reverse name", "1.113.0.203.in-addr.arpa. A", "dead.in-addr.arpa.", dns.TypePTR, 157},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newTestServer(t, shopCluster+"\nservice shop/ext external=www.example", Config{Upstream: silentFor(t, "dead")})
				c := &clusterDNS{Server: cluster.Server}
				s := newNodeCache(t, c.forwarding(t, nil))
				ask := func(when, want string, wantCode int) {
					t.Helper()
					m := <-sendQuery(t, s.Server, otherPod, parseQuery(tt.question, true))
					if addresses(m) != want || extendedCode(m) != wantCode {
						t.Errorf("%s: got %v, want %s with the extended error %d", when, m, want, wantCode)
					}
				}
				var flood pending
				flood.send(t, cluster.Server, node, tt.share, "n", tt.flood, tt.qtype)
				time.Sleep(silentTime - time.Second)
				ask("above the share of the node", "SERVFAIL", extendedLimit)
				if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=upstream"); n != 1 {
					t.Errorf("%d refusals were counted, want 1", n)
				}
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("after the flood", validAddr, -1)

				time.Sleep(61 * time.Second) // the TTL is 60 s
				cluster.cache.Clear()        // or the cluster DNS has a stale answer, too
				flood = nil
				flood.send(t, cluster.Server, node, tt.share, "m", tt.flood, tt.qtype)
				time.Sleep(silentTime - time.Second)
				ask("stale, above the share of the node", validAddr, int(dns.ExtendedErrorCodeStaleAnswer))
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("stale, after the flood", validAddr, -1)
				s.running.Wait()
				cluster.running.Wait()
			})
		})
	}
}
