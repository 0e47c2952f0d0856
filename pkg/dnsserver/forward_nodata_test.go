// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestForward_NoData: NODATA for one address family is the answer at once, whatever the upstream servers
// do with the other family: a client may query only one. Later queries are answered from the cache.
func TestForward_NoData(t *testing.T) {
	dropped := func(context.Context, *dns.Msg) (*dns.Msg, error) {
		time.Sleep(4 * time.Second)
		return nil, errUnreachable
	}
	fails := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure), nil
	}
	const soa = "example. 300 IN SOA ns.example. admin.example. 1 2 3 4 300"
	for name, tt := range map[string]struct {
		qtype uint16
		soa   string
		other Exchange // for the other address family
	}{
		"A, AAAA dropped":           {dns.TypeA, soa, dropped},
		"A, AAAA SERVFAIL":          {dns.TypeA, soa, fails},
		"AAAA, A dropped":           {dns.TypeAAAA, soa, dropped},
		"A without SOA, AAAA fails": {dns.TypeA, "", fails},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var queries atomic.Int32
				s := newServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
					queries.Add(1)
					if q.Question[0].Qtype != tt.qtype {
						return tt.other(ctx, q)
					}
					m := new(dns.Msg).SetReply(q)
					if tt.soa != "" {
						m.Ns = parseRecords(t, tt.soa)
					}
					return m, nil
				}})
				begin := time.Now()
				for range 3 {
					m := exchangeDirect(t, s, newQuery("www.example.", tt.qtype))
					if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != len(parseRecords(t, tt.soa)) {
						t.Errorf("got %v, want NODATA", m)
					}
				}
				if took := time.Since(begin); took != 0 || queries.Load() != 1 {
					t.Errorf("%d upstream queries and %v for three queries, want 1 at once", queries.Load(), took)
				}
			})
		})
	}
}
