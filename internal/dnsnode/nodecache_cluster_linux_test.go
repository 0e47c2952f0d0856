// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestClusterCheck_SlowReverseNames: reverse names without a reply do not make a node cache
// unready, as long as the cluster DNS answers for the cluster domain.
func TestClusterCheck_SlowReverseNames(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	var clients sync.WaitGroup
	for _, name := range []string{"1.0.0.10.in-addr.arpa.", "2.0.0.10.in-addr.arpa.", "3.0.0.10.in-addr.arpa."} {
		clients.Go(func() {
			client := dns.Client{Timeout: time.Minute}
			reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypePTR), "169.254.20.10:53")
			if err != nil || reply.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: %v, %v, want SERVFAIL", name, reply, err)
			}
		})
	}
	clients.Wait()
	becomes(t, i, i.readyz, "200 ok")
	// Without a reply for the cluster domain it is unready.
	n.cluster.Close()
	becomes(t, i, i.readyz, "503 no cluster DNS server answers: ")
	n.cluster = startClusterDNS(t)
	becomes(t, i, i.readyz, "200 ok")
}

// TestStale_ClusterDNSBack: a stale answer ends as soon as the cluster DNS has answered any
// query, not when its retry time is over.
func TestStale_ClusterDNSBack(t *testing.T) {
	if !enter(t) {
		return
	}
	n := newNode(t)
	i := startInstance(t, linkLocalFields)
	becomes(t, i, i.readyz, "200 ok")
	lookup := func(name string) string {
		client := dns.Client{Timeout: time.Minute}
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), "169.254.20.10:53")
		if err != nil || len(reply.Answer) != 1 {
			return fmt.Sprint(reply, err)
		}
		a, ok := reply.Answer[0].(*dns.A)
		if !ok || a.Hdr.Ttl > 1 {
			return fmt.Sprintf("%v, want a TTL of at most 1", reply.Answer[0])
		}
		return a.A.String()
	}
	// A busy machine may take longer than the node cache waits for a reply.
	resolves := func(name, want string) {
		t.Helper()
		becomes(t, i, func() string { return lookup(name) }, want)
	}
	const db = "db-0.db.shop.svc.cluster.local."
	resolves(db, "10.0.0.1")
	resolves("other.shop.svc.cluster.local.", "10.0.0.1")
	n.cluster.Close()
	time.Sleep(1100 * time.Millisecond) // the TTL
	if got := lookup(db); got != "10.0.0.1" {
		t.Errorf("without the cluster DNS: %s, want the stale address", got)
	}
	var queries atomic.Int64 // for db
	startClusterDNSWith(t, "10.0.0.9", func(name string) {
		if name == db {
			queries.Add(1)
		}
	})
	resolves("new.shop.svc.cluster.local.", "10.0.0.9")
	lookup(db)
	// The query may still be on its way when the stale address is served. Without a query the stale
	// address would be served until a retry time ends.
	poll.Until(t, "a query at the cluster DNS that is back", func() bool { return queries.Load() > 0 })
	resolves(db, "10.0.0.9")
}
