// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// countingUpstream counts queries, by name if it is not nil.
func countingUpstream(count *atomic.Int64, exchange Exchange) Exchange {
	return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		count.Add(1)
		return exchange(ctx, q)
	}
}

// noData is an upstream server for which every name exists, without records.
func noData(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
	return m, nil
}

// TestSearch_Amplification: one packet causes at most ten upstream queries, whatever names exist.
// Most names cost one for each domain outside the cluster and one for the bare name.
func TestSearch_Amplification(t *testing.T) {
	hosts := make([]fqdn.Name, MaxHostSuffixes)
	for i := range hosts {
		hosts[i] = mustName(t, fmt.Sprintf("d%d.example", i))
	}
	var list []string
	for _, h := range hosts {
		list = append(list, strings.TrimSuffix(h.String(), "."))
	}
	last := parseRecords(t, "web. 300 IN A 192.0.2.1\nweb. 300 IN AAAA 2001:db8::1").exchange
	for _, tt := range []struct {
		name     string
		upstream Exchange
		qtype    uint16
		want     int64
		rcode    int
	}{
		{"no name exists", recordSet(nil).exchange, dns.TypeA, 9, dns.RcodeNameError},
		{"no name exists", recordSet(nil).exchange, dns.TypeTXT, 9, dns.RcodeNameError},
		{"the bare name is found", last, dns.TypeA, 9, dns.RcodeSuccess},
		{"the bare name is found", last, dns.TypeAAAA, 10, dns.RcodeSuccess},
		{"all names exist without records", noData, dns.TypeA, 10, dns.RcodeServerFailure},
		{"all names exist without records", noData, dns.TypeTXT, 10, dns.RcodeServerFailure},
		{"all servers fail", unreachable, dns.TypeAAAA, 9, dns.RcodeServerFailure},
	} {
		for _, q := range []*dns.Msg{newQuery(autopathName("web", "shop"), tt.qtype), newQuery("web.", tt.qtype, strings.Join(list, ","))} {
			var count atomic.Int64
			s := newServer(t, "namespace shop\nloaded",
				Config{Upstream: countingUpstream(&count, tt.upstream), Autopath: Autopath{HostSuffixes: hosts}})
			if m := exchangeDirect(t, s, q); m.Rcode != tt.rcode {
				t.Errorf("%s: %s: got %s, want %s", tt.name, q.Question[0].String(),
					dns.RcodeToString[m.Rcode], dns.RcodeToString[tt.rcode])
			}
			s.running.Wait()
			if got := count.Load(); got != tt.want {
				t.Errorf("%s: %s: got %d upstream queries, want %d", tt.name, q.Question[0].String(), got, tt.want)
			}
		}
	}
}
