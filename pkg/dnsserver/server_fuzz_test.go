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

// seedQueries returns queries with all kinds of options, and two with malformed options.
func seedQueries(f *testing.F) [][]byte {
	f.Helper()
	var list [][]byte
	for _, options := range [][]dns.EDNS0{
		nil,
		{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}},
		{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)},
			&dns.EDNS0_PADDING{Padding: make([]byte, 9)}},
		{&dns.EDNS0_LOCAL{Code: 65313, Data: []byte("default.svc.cluster.local,svc.cluster.local")},
			&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}},
	} {
		for _, question := range []string{"web.default.svc.cluster.local. A",
			"ext.default.svc.cluster.local. AAAA", "_http._tcp.web.default.svc.cluster.local. SRV",
			"7.0.96.10.in-addr.arpa. PTR", "WWW.example. A", "www.example. ANY"} {
			q := parseQuery(question, options != nil)
			if options != nil {
				q.IsEdns0().Option = options
			}
			packet := mustPack(f, q)
			list = append(list, packet)
		}
	}
	malformed := bytes.Clone(list[len(list)-1])
	binary.BigEndian.PutUint16(malformed[len(malformed)-47:], 0xFFFF) // an option's length
	return append(list, malformed, malformed[:len(malformed)-1])
}

// errInvalid is the error of an upstream server whose reply is invalid.
var errInvalid = errors.New("invalid reply")

// FuzzHandle: with any packets from clients and upstream servers handle does not panic, and a
// reply is a complete message, to its query, and no longer than the client accepts.
func FuzzHandle(f *testing.F) {
	for _, packet := range seedQueries(f) {
		q := new(dns.Msg)
		if q.Unpack(packet) != nil {
			f.Add(packet, packet, true)
			continue
		}
		reply := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		reply.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: "a.", Mbox: "b."}}
		reply.Extra = []dns.RR{&dns.TSIG{Hdr: header("key.", dns.TypeTSIG, 0), Algorithm: dns.HmacSHA256},
			&dns.OPT{Hdr: header(".", dns.TypeOPT, 1<<31)}}
		denial := mustPack(f, reply)
		f.Add(packet, denial, false)
	}
	f.Fuzz(func(t *testing.T, packet, upstream []byte, overStream bool) {
		s := newTestServer(t, smallCluster+"\nservice default/ext external=www.example",
			Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
				m := new(dns.Msg)
				empty := func(r dns.RR) bool { return r.Header().Rdlength == 0 }
				if m.Unpack(upstream) != nil || slices.ContainsFunc(slices.Concat(m.Answer, m.Ns, m.Extra), empty) {
					return nil, errInvalid // as in pkg/dnsserver/upstream
				}
				if again, err := m.Pack(); err != nil || new(dns.Msg).Unpack(again) != nil {
					return nil, errInvalid
				}
				m.Question = q.Question // pkg/dnsserver/upstream checks it
				return m, nil
			}})
		via := overUDP
		if overStream {
			via = overTCP
		}
		for range 2 { // from upstream, and from the cache
			reply := handlePacket(t.Context(), s.Server, packet, via, podAddr)
			if reply == nil {
				continue
			}
			m := new(dns.Msg)
			if err := m.Unpack(reply); err != nil && len(reply) > headerLen {
				t.Fatalf("cannot unpack the reply %x: %v", reply, err)
			}
			if !bytes.Equal(reply[:2], packet[:2]) || reply[2]&0x80 == 0 {
				t.Fatalf("%x is not a reply to %x", reply, packet)
			}
			q := &query{via: via}
			if q.parse(packet); q.rejectCode != dns.RcodeSuccess {
				continue
			}
			if len(reply) > q.maxReply || !bytes.Equal(reply[headerLen:headerLen+len(q.question)], q.question) ||
				len(m.Question) != 1 || (m.IsEdns0() != nil) != q.edns {
				t.Fatalf("the reply has %d octets, the client accepts %d: %v", len(reply), q.maxReply, m)
			}
		}
		if s.counterSum(t, "dnsconfigurer_dns_panics_total") > 0 {
			t.Fatal("panic")
		}
	})
}

// FuzzReadMessage: any octets in pieces of any size are read as complete messages, until the
// connection ends.
func FuzzReadMessage(f *testing.F) {
	query := frame([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07cluster\x05local\x00\x00\x06\x00\x01"))
	f.Add(query, byte(1))
	f.Add(append(query, query...), byte(7))
	f.Add(query[:len(query)-1], byte(255))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0}, byte(2))
	f.Add([]byte{0x10, 0x00, 1}, byte(3))
	f.Add([]byte{0x10, 0x01, 1}, byte(3))
	f.Add([]byte{0xFF, 0xFF}, byte(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece byte) {
		s := newTestServer(t, smallCluster, Config{})
		server, client := net.Pipe()
		go func() {
			defer client.Close()
			for rest := stream; len(rest) > 0; {
				n := min(int(piece)+1, len(rest))
				if _, err := client.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		offset := 0
		for {
			packet, err := readMessage(server)
			if err != nil {
				break
			}
			if len(packet) > maxQuery || !bytes.Equal(frame(packet), stream[offset:offset+2+len(packet)]) {
				t.Fatalf("%x at %d of %x", packet, offset, stream)
			}
			offset += 2 + len(packet)
			handlePacket(t.Context(), s.Server, packet, overTCP, podAddr)
		}
		server.Close()
		if n := s.counterSum(t, "dnsconfigurer_dns_panics_total"); n > 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
