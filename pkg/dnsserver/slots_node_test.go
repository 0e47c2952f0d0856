// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestNodeCache_RefusalNotCached: while all slots of the cluster DNS are in use, it refuses queries for
// names that other servers answer. Such a refusal says nothing about the name: it is not cached, and a
// stale answer stays in use.
func TestNodeCache_RefusalNotCached(t *testing.T) {
	node := netip.MustParseAddr("10.0.0.1") // the client that the cluster DNS sees
	for _, tt := range []struct {
		name, question, flood string
		qtype                 uint16
	}{
		{"ExternalName", "ext.shop.svc.cluster.local. A", "dead.example.", dns.TypeA},
		{"reverse name", "1.113.0.203.in-addr.arpa. A", "dead.in-addr.arpa.", dns.TypePTR},
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
				flood.send(t, cluster.Server, node, DefaultMaxQueries, "n", tt.flood, tt.qtype)
				ask("without a slot", "SERVFAIL", extendedLimit)
				if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=upstream"); n != 1 {
					t.Errorf("%d refusals were counted, want 1", n)
				}
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("after the flood", validAddr, -1)

				time.Sleep(61 * time.Second) // the TTL is 60 s
				cluster.cache.Clear()        // or the cluster DNS has a stale answer, too
				flood = nil
				flood.send(t, cluster.Server, node, DefaultMaxQueries, "m", tt.flood, tt.qtype)
				ask("stale, without a slot", validAddr, int(dns.ExtendedErrorCodeStaleAnswer))
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("stale, after the flood", validAddr, -1)
				s.running.Wait()
				cluster.running.Wait()
			})
		})
	}
}

// TestNodeCache_ForeignRefusal: the extended error of a refusal has no meaning from the servers of other
// names. Their owner could otherwise keep failures out of the cache, so that each query is forwarded.
func TestNodeCache_ForeignRefusal(t *testing.T) {
	forwarded := 0
	foreign := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		forwarded++
		m := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		m.SetEdns0(maxUDP, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: extendedLimit}}
		return m, nil
	}
	stub := Stub{Zone: mustName(t, "2.0.192.in-addr.arpa"), Exchange: foreign}
	s := newNodeCache(t, Forwarding{Upstream: foreign, Stubs: []Stub{stub}})
	for i, question := range []string{"www.example. A", "1.113.0.203.in-addr.arpa. PTR", "1.2.0.192.in-addr.arpa. PTR"} {
		for range 3 {
			if m := exchangeDirect(t, s.Server, parseQuery(question, true)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: got %v, want SERVFAIL", question, m)
			}
		}
		if forwarded != i+1 {
			t.Errorf("%s: %d queries were forwarded, want %d", question, forwarded, i+1)
		}
	}
}

// TestNodeCache_SlowNamesOverTCP: a node cache that queries the cluster DNS over TCP opens another
// connection when many queries wait for their replies, because the cluster DNS reads no further query
// from the first one. So names that take long do not delay those of other pods.
func TestNodeCache_SlowNamesOverTCP(t *testing.T) {
	release := make(chan struct{})
	cluster := startServer(t, shopCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		<-release
		return newReply(t, q, validAddr), nil
	}})
	client, err := upstream.New(upstream.Config{
		Servers:    []upstream.Server{{Addr: cluster.addr, TCP: true}},
		TryTimeout: 30 * time.Second, Timeout: 30 * time.Second, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	s := newNode(t, client.Exchange, client.Exchange)
	var slow pending
	for i := range 10 {
		slow.send(t, s.Server, clientAddr(i), 10, fmt.Sprint("n", i, "-"), "in-addr.arpa.", dns.TypePTR)
	}
	poll.Until(t, "slow queries at the cluster DNS", func() bool {
		return cluster.streams.queries.inUse() >= maxStreamQueries
	})
	web := <-sendQuery(t, s.Server, otherPod, parseQuery("web.shop.svc.cluster.local. A", true))
	if got := addresses(web); got != "10.96.0.7" {
		t.Errorf("a name of the cluster: got %s, want 10.96.0.7", got)
	}
	close(release)
	expectRcodes(t, "slow names", slow, "NOERROR")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
