// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// longAlias returns an alias of owner to a name of 200 octets, and the name.
func longAlias(owner string, fill string) (record, target string) {
	target = strings.Repeat(strings.Repeat(fill, 63)+".", 3) + "example."
	return fmt.Sprintf("%s 300 IN CNAME %s\n", owner, target), target
}

// TestForward_Rotation: each address of an answer of another server is the first one in a quarter of
// the replies, cached or not. Aliases stay before their targets.
func TestForward_Rotation(t *testing.T) {
	first, second := longAlias("www.rotation.example.", "a")
	next, last := longAlias(second, "b")
	for name, tt := range map[string]struct {
		via       transport
		ttl       int    // 0: the reply is not cached
		chain     string // of aliases
		owner     string // of the addresses
		truncated bool
	}{
		"UDP, cached":     {via: overUDP, ttl: 300, owner: "www.rotation.example."},
		"UDP, not cached": {via: overUDP, owner: "www.rotation.example."},
		"TCP, cached":     {via: overTCP, ttl: 300, owner: "www.rotation.example."},
		"TCP, not cached": {via: overTCP, owner: "www.rotation.example."},
		"TCP, aliases":    {via: overTCP, ttl: 300, chain: first + next, owner: last},
		"TC, cached":      {via: overUDP, ttl: 300, chain: first + next, owner: last, truncated: true},
		"TC, not cached":  {via: overUDP, chain: first + next, owner: last, truncated: true},
	} {
		t.Run(name, func(t *testing.T) {
			records := tt.chain
			for i := range 4 {
				records += fmt.Sprintf("%s %d IN A 192.0.2.%d\n", tt.owner, tt.ttl, i)
			}
			s := newServer(t, smallCluster, Config{Upstream: parseRecords(t, records).exchange})
			counts := map[string]int{}
			for range 400 {
				m := exchangeVia(t, s, tt.via, podAddr, parseQuery("www.rotation.example. A", false))
				aliases := strings.Count(tt.chain, "\n")
				if m.Truncated != tt.truncated || len(m.Answer) < aliases+2 {
					t.Fatalf("got %v", m)
				}
				for i, rr := range m.Answer {
					if (rr.Header().Rrtype == dns.TypeCNAME) != (i < aliases) {
						t.Fatalf("got %v, want the aliases first", m)
					}
				}
				counts[m.Answer[aliases].(*dns.A).A.String()]++
			}
			for i := range 4 {
				if n := counts[fmt.Sprintf("192.0.2.%d", i)]; n < 60 || n > 140 {
					t.Errorf("192.0.2.%d is the first address of %d replies in 400, want 60 to 140", i, n)
				}
			}
		})
	}
}

// TestForward_FirstTTL: the TTLs of the reply for which a server is queried are those of the cached
// replies after it, less the age.
func TestForward_FirstTTL(t *testing.T) {
	const age = 7
	for question, tt := range map[string]struct {
		records string
		want    uint32
	}{
		"www.example. A":     {"www.example. 86400 IN A 192.0.2.1", 3600},
		"alias.example. A":   {"alias.example. 86400 IN CNAME www.example.\nwww.example. 86400 IN A 192.0.2.1", 3600},
		"short.example. A":   {"short.example. 60 IN A 192.0.2.1", 60},
		"missing.example. A": {"example. 86400 IN SOA ns.example. admin.example. 1 2 3 4 86400", 1800},
		"www.example. AAAA":  {"example. 86400 IN SOA ns.example. admin.example. 1 2 3 4 86400", 1800},
		"minimum.example. A": {"example. 86400 IN SOA ns.example. admin.example. 1 2 3 4 20", 20},
	} {
		t.Run(question, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, smallCluster, Config{Upstream: fixedReply(parseRecords(t, tt.records))})
				for _, want := range []uint32{tt.want, tt.want - age} {
					m := exchangeDirect(t, s, parseQuery(question, true))
					records := append(m.Answer, m.Ns...)
					if len(records) == 0 {
						t.Fatalf("got %v", m)
					}
					for _, rr := range records {
						if rr.Header().Ttl != want {
							t.Errorf("got %v, want the TTL %d", rr, want)
						}
					}
					time.Sleep(age * time.Second)
				}
			})
		})
	}
}

// fixedReply replies with the records, SOA records in the authority section. Without an answer the reply
// to a query for A is NXDOMAIN.
func fixedReply(records []dns.RR) Exchange {
	return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q)
		for _, rr := range records {
			if rr.Header().Rrtype == dns.TypeSOA {
				m.Ns = append(m.Ns, rr)
			} else {
				m.Answer = append(m.Answer, rr)
			}
		}
		if len(m.Answer) == 0 && q.Question[0].Qtype == dns.TypeA {
			m.Rcode = dns.RcodeNameError
		}
		return m, nil
	}
}
