// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// startOutside serves outsideRecords until t ends. Names that it does not have do not
// exist.
func (m *machine) startOutside(t *testing.T) {
	t.Helper()
	var records []dns.RR
	for p := dns.NewZoneParser(strings.NewReader(outsideRecords), ".", ""); ; {
		rr, ok := p.Next()
		if !ok {
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
		records = append(records, rr)
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
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable, m.Rcode = true, dns.RcodeNameError
		for _, rr := range records {
			if !strings.EqualFold(rr.Header().Name, q.Question[0].Name) {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if len(m.Answer) == 0 {
			m.Ns = []dns.RR{soa}
		}
		_ = w.WriteMsg(m) // who does not get it asks again
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = server.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
