// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/miekg/dns"
)

// seeds are queries with what a query may carry.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	var list [][]byte
	for _, options := range [][]dns.EDNS0{
		nil,
		{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}},
		{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)}, &dns.EDNS0_PADDING{Padding: make([]byte, 9)}},
		{&dns.EDNS0_LOCAL{Code: 65313, Data: []byte("default.svc.cluster.local,svc.cluster.local")}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}},
	} {
		for _, question := range []string{"web.default.svc.cluster.local. A", "ext.default.svc.cluster.local. AAAA", "_http._tcp.web.default.svc.cluster.local. SRV", "7.0.96.10.in-addr.arpa. PTR", "WWW.example. A", "www.example. ANY"} {
			q := asking(question, options != nil)
			if options != nil {
				q.IsEdns0().Option = options
			}
			packet, err := q.Pack()
			if err != nil {
				f.Fatal(err)
			}
			list = append(list, packet)
		}
	}
	cut := bytes.Clone(list[len(list)-1])
	binary.BigEndian.PutUint16(cut[len(cut)-47:], 0xFFFF) // an option's length
	return append(list, cut, cut[:len(cut)-1])
}

// FuzzServer: whatever comes from clients and from upstream, no fault of ours is found,
// and what a client gets is a whole message, to its query and no longer than it takes.
func FuzzServer(f *testing.F) {
	for _, packet := range seeds(f) {
		q := new(dns.Msg)
		if q.Unpack(packet) != nil {
			f.Add(packet, packet, true)
			continue
		}
		reply := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		reply.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: "a.", Mbox: "b."}}
		reply.Extra = []dns.RR{&dns.TSIG{Hdr: header("key.", dns.TypeTSIG, 0), Algorithm: dns.HmacSHA256}, &dns.OPT{Hdr: header(".", dns.TypeOPT, 1<<31)}}
		denial, err := reply.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, denial, false)
	}
	f.Fuzz(func(t *testing.T, packet, upstream []byte, overStream bool) {
		s := newTestServer(t, noChange, small+"\nservice default/ext external=www.example", func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			m := new(dns.Msg)
			empty := func(r dns.RR) bool { return r.Header().Rdlength == 0 }
			if m.Unpack(upstream) != nil || slices.ContainsFunc(slices.Concat(m.Answer, m.Ns, m.Extra), empty) {
				return nil, errors.New("garbage") // as pkg/dnsserver/upstream says, too
			}
			if again, err := m.Pack(); err != nil || new(dns.Msg).Unpack(again) != nil {
				return nil, errors.New("garbage")
			}
			m.Question = q.Question // it sees to that
			return m, nil
		})
		via := overUDP
		if overStream {
			via = overTCP
		}
		for range 2 { // from upstream, and from the cache
			reply := handled(t.Context(), s.Server, packet, via, pod())
			if reply == nil {
				continue
			}
			m := new(dns.Msg)
			if err := m.Unpack(reply); err != nil && len(reply) > headerLen {
				t.Fatalf("the reply %x cannot be read: %v", reply, err)
			}
			if !bytes.Equal(reply[:2], packet[:2]) || reply[2]&0x80 == 0 {
				t.Fatalf("%x is no reply to %x", reply, packet)
			}
			q := &query{via: via}
			if rcode, _ := q.parse(packet); rcode != dns.RcodeSuccess {
				continue
			}
			if len(reply) > q.size || !bytes.Equal(reply[headerLen:headerLen+len(q.question)], q.question) || len(m.Question) != 1 || (m.IsEdns0() != nil) != q.edns {
				t.Fatalf("%d octets for a client that accepts %d: %v", len(reply), q.size, m)
			}
		}
		if s.count(t, "dnsconfigurer_dns_panics_total") > 0 {
			t.Fatal("a fault of ours")
		}
	})
}

// FuzzFraming: whatever comes over a connection, in whatever pieces, the connection ends,
// and what it brings are whole messages until then.
func FuzzFraming(f *testing.F) {
	query := framed([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07cluster\x05local\x00\x00\x06\x00\x01"))
	f.Add(query, byte(1))
	f.Add(append(query, query...), byte(7))
	f.Add(query[:len(query)-1], byte(255))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0}, byte(2))
	f.Add([]byte{0x10, 0x00, 1}, byte(3))
	f.Add([]byte{0x10, 0x01, 1}, byte(3))
	f.Add([]byte{0xFF, 0xFF}, byte(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece byte) {
		s := newTestServer(t, noChange, small, nil)
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for rest := stream; len(rest) > 0; {
				n := min(int(piece)+1, len(rest))
				if _, err := theirs.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		taken := 0
		for {
			packet, err := readMessage(ours)
			if err != nil {
				break
			}
			if len(packet) > maxQuery || !bytes.Equal(framed(packet), stream[taken:taken+2+len(packet)]) {
				t.Fatalf("%x at %d of %x", packet, taken, stream)
			}
			taken += 2 + len(packet)
			handled(t.Context(), s.Server, packet, overTCP, pod())
		}
		ours.Close()
		if n := s.count(t, "dnsconfigurer_dns_panics_total"); n > 0 {
			t.Fatalf("%d faults of ours", n)
		}
	})
}
