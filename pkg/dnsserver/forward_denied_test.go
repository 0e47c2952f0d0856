// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// flippingUpstream replies "good", "NXDOMAIN", "NODATA", "SERVFAIL", or not at all. Answers have a TTL of
// 10, and denials of 60. It has no AAAA records.
type flippingUpstream struct {
	mode string

	mu      sync.Mutex // an expansion asks for several names at a time
	queries map[string]int
}

func (u *flippingUpstream) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	question := q.Question[0]
	u.mu.Lock()
	u.queries[question.Name]++
	u.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	switch {
	case u.mode == "silent":
		return nil, errUnreachable
	case u.mode == "SERVFAIL":
		m.Rcode = dns.RcodeServerFailure
		return m, nil
	case strings.HasPrefix(question.Name, "never.") || strings.HasSuffix(question.Name, ".example.org.") || u.mode == "NXDOMAIN":
		m.Rcode = dns.RcodeNameError
	case u.mode == "good" && question.Qtype != dns.TypeAAAA:
		rr, err := dns.NewRR(question.Name + map[uint16]string{dns.TypePTR: " 10 IN PTR host."}[question.Qtype])
		if question.Qtype == dns.TypeA {
			rr, err = dns.NewRR(question.Name + " 10 IN A 192.0.2.1")
		}
		m.Answer = []dns.RR{rr}
		return m, err
	}
	soa, err := dns.NewRR(". 60 IN SOA ns.example. admin.example. 1 2 3 4 60")
	m.Ns = []dns.RR{soa}
	return m, err
}

// lastGoodServer is a server with an upstream server and LastKnownGood of 10 minutes.
type lastGoodServer struct {
	*testServer
	up  *flippingUpstream
	log logbuffer.Buffer
}

// forEachLastGood runs a test with a cluster DNS server and with a node cache, whose cluster DNS has the
// same upstream server.
func forEachLastGood(t *testing.T, f func(t *testing.T, s *lastGoodServer)) {
	for _, node := range []bool{false, true} {
		t.Run(fmt.Sprintf("node cache %t", node), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &lastGoodServer{up: &flippingUpstream{mode: "good", queries: map[string]int{}}}
				c := Config{Logger: slog.New(slog.NewTextHandler(&s.log, nil)), Autopath: Autopath{Allowed: []netip.Prefix{}}}
				forwarding := Forwarding{Upstream: s.up.exchange, LastKnownGood: 10 * time.Minute,
					Stubs: []Stub{{Zone: mustName(t, "corp.example"), Exchange: s.up.exchange},
						{Zone: mustName(t, "sub.cluster.local"), Exchange: s.up.exchange}}}
				if node {
					s.testServer = newCachingServer(t, c)
					for _, zone := range []string{"cluster.local", "in-addr.arpa", "ip6.arpa"} {
						forwarding.Stubs = append(forwarding.Stubs, Stub{Zone: mustName(t, zone), Exchange: s.up.exchange, Cluster: true})
					}
					forwarding.Expander = s.up.exchange // without the option: the node cache expands the list
					forwarding.HostSuffixes = append(forwarding.HostSuffixes, mustName(t, "example.org"))
				} else {
					c.Autopath.HostSuffixes = append(c.Autopath.HostSuffixes, mustName(t, "example.org"))
					s.testServer = newTestServer(t, "namespace shop\nloaded", c)
				}
				s.SetForwarding(forwarding)
				f(t, s)
			})
		})
	}
}

// expect sets the mode of the upstream server and checks the reply to a question over both transports:
// the records, the smallest TTL, and the extended errors.
func (s *lastGoodServer) expect(t *testing.T, mode, question, want string) {
	t.Helper()
	s.up.mode = mode
	for _, via := range []transport{overUDP, overTCP} {
		m := exchangeVia(t, s.Server, via, podAddr, parseQuery(question, true))
		synctest.Wait()
		got := addresses(m)
		for i, rr := range m.Answer {
			if i == len(m.Answer)-1 {
				got += fmt.Sprintf(" TTL %d", rr.Header().Ttl)
			}
		}
		if e := extendedErrors(m); e != "" {
			got += " EDE " + e
		}
		if got != want {
			t.Errorf("%s, %s at %v: got %s, want %s", mode, question, time.Now().Format("04:05"), got, want)
		}
	}
}

const lastGood = "192.0.2.1 TTL 10 EDE 3 last known good answer: its servers deny it now"

// TestForward_LastKnownGood: a name that its servers have answered, and now deny, has its last answer for
// 10 minutes, whatever they reply meanwhile. A name that is really deleted is then denied.
func TestForward_LastKnownGood(t *testing.T) {
	forEachLastGood(t, func(t *testing.T, s *lastGoodServer) {
		const question = "www.example.com. A"
		s.expect(t, "good", question, "192.0.2.1 TTL 10")
		s.expect(t, "good", "www.example.com. AAAA", "NOERROR")
		s.expect(t, "good", "other.corp.example. A", "192.0.2.1 TTL 10")
		time.Sleep(11 * time.Second)
		s.expect(t, "silent", question, "192.0.2.1 TTL 10 EDE 3") // no denial
		time.Sleep(31 * time.Second)
		begin := time.Now()
		for i := 0; time.Since(begin) < 10*time.Minute; i++ {
			mode := []string{"NXDOMAIN", "NODATA", "SERVFAIL", "silent", "NXDOMAIN"}[i%5]
			s.expect(t, mode, question, lastGood)
			s.expect(t, "NXDOMAIN", "never.example.com. A", "NXDOMAIN")
			s.expect(t, "NXDOMAIN", "other.corp.example. A", lastGood)
			time.Sleep(10 * time.Second)
		}
		s.expect(t, "NXDOMAIN", question, "NXDOMAIN")
		if n := s.up.queries["www.example.com."]; n > 4+10*60/30 {
			t.Errorf("%d queries for the denied name: want one every 30 seconds", n)
		}
		if text := s.log.String(); strings.Count(text, "last known good") != 2 ||
			strings.Count(text, "zone=. name=www.example.com. type=A for=10m0s") != 1 || strings.Count(text, "zone=corp.example.") != 1 {
			t.Errorf("want one line for each zone, got:\n%s", text)
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_queries_total", "source=last_known_good", "rcode=NOERROR"); n != 2*2*60 {
			t.Errorf("%d replies were counted, want %d", n, 2*2*60)
		}
		time.Sleep(61 * time.Second)
		s.expect(t, "good", question, "192.0.2.1 TTL 10")
		s.expect(t, "NXDOMAIN", question, "192.0.2.1 TTL 10") // within the TTL no server is asked
	})
}

// TestForward_LastKnownGoodExcluded: names of the cluster domain, and what the cluster DNS answers for a
// node cache, are denied at once. So are the candidates of a search list that were never answered.
func TestForward_LastKnownGoodExcluded(t *testing.T) {
	forEachLastGood(t, func(t *testing.T, s *lastGoodServer) {
		denied := map[string]string{"a.sub.cluster.local. A": "192.0.2.1 TTL 10"}
		// www.example.com.example.org does not exist, and www.example.com does.
		search := autopathName("www.example.com", "shop") + " A"
		if s.nodeCache {
			denied["web.shop.svc.cluster.local. A"], denied["1.0.96.10.in-addr.arpa. PTR"] = "192.0.2.1 TTL 10", "NOERROR TTL 10"
			denied[search] = "192.0.2.1 TTL 10" // a name of the cluster DNS, which answers everything
		} else {
			s.expect(t, "good", search, "192.0.2.1 TTL 5")
		}
		for question, want := range denied {
			s.expect(t, "good", question, want)
		}
		time.Sleep(61 * time.Second)
		for question := range denied {
			s.expect(t, "NXDOMAIN", question, "NXDOMAIN")
		}
		s.expect(t, "NXDOMAIN", "www.example.com.example.org. A", "NXDOMAIN")
		if !s.nodeCache {
			s.expect(t, "NXDOMAIN", search, strings.Replace(lastGood, "TTL 10", "TTL 5", 1))
		}
		if text := s.log.String(); strings.Contains(text, ".local") || strings.Contains(text, "arpa") || strings.Contains(text, "org") {
			t.Errorf("%s", text)
		}
	})
}
