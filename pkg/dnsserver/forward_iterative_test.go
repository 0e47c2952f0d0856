// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestForward_Iterative: a query without RD is answered from the zone or a fresh entry of the
// cache, or refused. It leaves no trace in the cache.
func TestForward_Iterative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{}
		s := newTestServer(t, "namespace default\nservice default/web 10.96.0.7\n"+
			"service default/ext external=db.example\nloaded", Config{Upstream: up.exchange})
		ask := func(rd bool, name string) string {
			m := newQuery(name, dns.TypeA)
			m.RecursionDesired = rd
			reply := exchangeDirect(t, s.Server, m)
			synctest.Wait()
			text := addresses(reply)
			if code := extendedCode(reply); code >= 0 {
				text += " " + dns.ExtendedErrorCodeToString[uint16(code)]
			}
			return fmt.Sprintf("%s, %d upstream, %d cached", text, up.queries.Load(), s.cache.Stats().Entries)
		}
		expect := func(rd bool, name, want string) {
			t.Helper()
			if got := ask(rd, name); got != want {
				t.Errorf("%s, RD %t: got %s, want %s", name, rd, got, want)
			}
		}
		const refused = "REFUSED Not Authoritative"
		expect(false, "web.default.svc.cluster.local.", "10.96.0.7, 0 upstream, 0 cached")
		expect(false, "ext.default.svc.cluster.local.", "NOERROR, 0 upstream, 0 cached") // the CNAME alone
		expect(false, "www.example.", refused+", 0 upstream, 0 cached")
		for range 4 {
			expect(true, "www.example.", "192.0.2.1, 1 upstream, 1 cached")
		}
		expect(false, "www.example.", "192.0.2.1, 1 upstream, 1 cached")
		time.Sleep(95 * time.Second)
		expect(false, "www.example.", "192.0.2.1, 1 upstream, 1 cached") // expiring: RD=0 does not prefetch it
		expect(true, "www.example.", "192.0.2.1, 2 upstream, 1 cached")  // and does not keep others from it
		time.Sleep(101 * time.Second)
		up.err = errUnreachable
		expect(false, "www.example.", refused+", 2 upstream, 1 cached") // stale
		up.err = nil
		expect(true, "www.example.", "192.0.2.3, 3 upstream, 1 cached")
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=recursion"); n != 3 {
			t.Errorf("%d refusals were counted, want 3", n)
		}
	})
}

// TestForward_IterativeOnNode: a node cache forwards a query without RD for a name of the
// cluster, and no other. A failure is not cached.
func TestForward_IterativeOnNode(t *testing.T) {
	var cluster, other stubUpstream
	s := newNode(t, cluster.exchange, other.exchange)
	ask := func(rd bool, name string) string {
		m := newQuery(name, dns.TypeA)
		m.RecursionDesired = rd
		return addresses(exchangeDirect(t, s.Server, m))
	}
	for _, name := range []string{"www.example.", "1.0.0.10.in-addr.arpa.", autopathName("www", "default")} {
		if got := ask(false, name); got != "REFUSED" || other.queries.Load() != 0 {
			t.Errorf("%s: got %s after %d queries", name, got, other.queries.Load())
		}
	}
	const name = "web.default.svc.cluster.local."
	cluster.err = errUnreachable
	for _, want := range []string{"SERVFAIL", "192.0.2.2", "192.0.2.3"} {
		if got := ask(false, name); got != want || s.cache.Stats().Entries != 0 {
			t.Errorf("without RD: got %s and %d cached replies, want %s and none", got, s.cache.Stats().Entries, want)
		}
		cluster.err = nil
	}
	for _, rd := range []bool{true, false} {
		if got := ask(rd, name); got != "192.0.2.4" {
			t.Errorf("RD %t: got %s, want the cached 192.0.2.4", rd, got)
		}
	}
}
