// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// internet is the DNS server of all names outside the cluster.
type internet struct {
	records []dns.RR
	silent  atomic.Pointer[string] // the domain without replies; nil: none
}

// startOutside serves records until t ends. Other names do not exist.
func (m *machine) startOutside(t *testing.T, text string) *internet {
	t.Helper()
	i := new(internet)
	for p := dns.NewZoneParser(strings.NewReader(text), ".", ""); ; {
		rr, ok := p.Next()
		if !ok {
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
		i.records = append(i.records, rr)
	}
	soa, err := dns.NewRR(". 300 IN SOA ns.example. admin.example. 1 2 3 4 300")
	if err != nil {
		t.Fatal(err)
	}
	var conn net.PacketConn
	err = m.inside(func() (err error) {
		conn, err = net.ListenPacket("udp", netip.AddrPortFrom(outside, 53).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := dnstest.Serve(conn, nil, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		if domain := i.silent.Load(); domain != nil && dns.IsSubDomain(*domain, q.Question[0].Name) {
			return nil
		}
		return i.reply(q, soa)
	}))
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

// reply returns the records of the name, or those of the wildcard above it.
func (i *internet) reply(q *dns.Msg, soa dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable, m.Rcode = true, dns.RcodeNameError
	name := strings.ToLower(q.Question[0].Name)
	_, parent, _ := strings.Cut(name, ".")
	for _, owner := range []string{name, "*." + parent} {
		for _, rr := range i.records {
			if rr.Header().Name != owner {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if rr.Header().Rrtype == q.Question[0].Qtype {
				own := dns.Copy(rr)
				own.Header().Name = q.Question[0].Name
				m.Answer = append(m.Answer, own)
			}
		}
		if m.Rcode == dns.RcodeSuccess {
			break
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa}
	}
	return m
}
