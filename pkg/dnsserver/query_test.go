// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestHandle_RejectedQueries: the rcodes of queries that are not answered from any source. The reply repeats the
// question, and has an OPT record with DO, as far as both could be read (RFC 6891 section 7).
func TestHandle_RejectedQueries(t *testing.T) {
	s := startServer(t, "loaded", Config{})
	const name = "Web.default.svc.cluster.local."
	packet := func(edns bool, change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if edns {
			m.SetEdns0(1232, true)
		}
		change(m)
		return mustPack(t, m)
	}
	plain, withOPT := packet(false, func(*dns.Msg) {}), packet(true, func(*dns.Msg) {})
	badOption := bytes.Clone(withOPT)
	binary.BigEndian.PutUint16(badOption[len(badOption)-2:], 1) // the length of the options, which are not there
	forward := packet(true, func(m *dns.Msg) { m.Question[0].Name = "." })
	opt := byte(headerLen + pointerLen + questionFixedLen) // the offset of its owner, the root
	forward = slices.Concat(forward[:headerLen], []byte{0xC0, opt}, forward[headerLen+1:])
	record := []dns.RR{&dns.A{Hdr: header(".", dns.TypeA, 0), A: make([]byte, 4)}}
	for _, tt := range []struct {
		name            string
		packet          []byte
		want            int
		hasQuestion, do bool
	}{
		{"header only", make([]byte, headerLen), dns.RcodeFormatError, false, false},
		{"question count without question", plain[:headerLen], dns.RcodeFormatError, false, false},
		{"additional count without record", withOPT[:len(plain)], dns.RcodeFormatError, true, false},
		{"truncated question", plain[:20], dns.RcodeFormatError, false, false},
		{"compression pointer to itself", append(plain[:headerLen:headerLen], 0xC0, headerLen, 0, 1, 0, 1),
			dns.RcodeFormatError, false, false},
		{"compression pointer to a later name", forward, dns.RcodeFormatError, false, false},
		{"two questions (RFC 9619)", packet(true, func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
			dns.RcodeFormatError, false, false},
		{"an answer in a query", packet(false, func(m *dns.Msg) { m.Answer = record }), dns.RcodeFormatError, true, false},
		{"two OPT records (RFC 6891)", packet(true, func(m *dns.Msg) { m.Extra = append(m.Extra, m.Extra[0]) }),
			dns.RcodeFormatError, true, true},
		{"a broken OPT record", badOption, dns.RcodeFormatError, true, false},
		{"an OPT record below the root", packet(true, func(m *dns.Msg) { m.Extra[0].Header().Name = "a." }),
			dns.RcodeFormatError, true, false},
		{"unknown EDNS version", packet(true, func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }), dns.RcodeBadVers, true, true},
		{"NOTIFY", packet(true, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented, true, true},
		{"UPDATE", packet(false, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented, true, false},
		{"UPDATE with records", packet(true, func(m *dns.Msg) { m.Opcode, m.Ns = dns.OpcodeUpdate, record }),
			dns.RcodeNotImplemented, true, false},
		{"CHAOS", packet(false, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused, true, false},
		{"zone transfer", packet(false, func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused, true, false},
	} {
		wire, m := s.exchangePacket(t, tt.packet, time.Minute), new(dns.Msg)
		if len(wire) < headerLen || !bytes.Equal(wire[:2], tt.packet[:2]) || wire[2]&0x80 == 0 || m.Unpack(wire) != nil {
			t.Errorf("%s: got the reply %x, want one with the ID of the query", tt.name, wire)
			continue
		}
		opt := m.IsEdns0()
		if m.Rcode != tt.want || (len(m.Question) == 1 && m.Question[0].Name == name) != tt.hasQuestion ||
			(opt != nil && opt.Do()) != tt.do {
			t.Errorf("%s: got %v, want %s, question %t, DO %t", tt.name, m, dns.RcodeToString[tt.want], tt.hasQuestion, tt.do)
		}
	}
}

// TestHandle_DroppedPackets: packets that are not queries get no reply. The next query does.
func TestHandle_DroppedPackets(t *testing.T) {
	s := startServer(t, "loaded", Config{})
	reply := mustPack(t, new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
	reply[2] |= 0x80
	for _, packet := range [][]byte{{}, make([]byte, headerLen-1), reply} {
		if new(query).parse(packet) {
			t.Errorf("%x is parsed as a query", packet)
		}
		if reply := handlePacket(t.Context(), s.Server, packet, overUDP, podAddr); reply != nil {
			t.Errorf("%x: got the reply %x, want none", packet, reply)
		}
	}
	if replyText(s.exchange(t, "udp", new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA))) == "" {
		t.Error("no reply to the next query")
	}
}

// FuzzParse: the parser agrees with the library, and a rejection is a reply that the client
// accepts. The seeds have all variants of queries of all types.
func FuzzParse(f *testing.F) {
	for _, name := range []string{".", "web.default.svc.cluster.local.", `a\.b\000\255.EXAMPLE.`} {
		for _, qtype := range queryTypes {
			for _, m := range queryVariants(name, qtype) {
				f.Add(mustPack(f, m))
			}
		}
	}
	packet := mustPack(f, new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeSRV).SetEdns0(1232, true))
	f.Add(packet)
	f.Add(packet[:len(packet)-11])
	f.Add([]byte("00\x01000\x00\x01\x00\x00\x00\x00\x00\x00\x00")) // no type and class
	const signed = "00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x01"
	f.Add([]byte(signed + "\x00\x00\xfa000000\x00\x00"))           // a TSIG record without data
	f.Add([]byte(signed + "\xc0\x0c\x00\xfa\x00\xff0000\x00\x11" + // with a compressed owner
		"\x00" + "000000" + "00" + "\x00\x00" + "00" + "00" + "\x00\x00"))
	for _, packet := range seedQueries(f) {
		f.Add(packet)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		parseAgrees(t, packet)
		q := new(query)
		if !q.parse(packet) {
			return
		}
		for _, a := range []answer{{rcode: q.rejectCode}, failure(fromServer, dns.ExtendedErrorCodeOther, "fuzz")} {
			wire := q.reply(a, nil).wire
			if len(wire) > q.maxReply {
				t.Fatalf("the reply has %d octets, the client accepts %d", len(wire), q.maxReply)
			}
			if !bytes.Equal(wire[:2], packet[:2]) || wire[2]&0x80 == 0 {
				t.Fatalf("%x is not a reply to %x", wire, packet)
			}
		}
	})
}

// parseAgrees parses a packet, and compares the query with what the library reads. What the library
// cannot read is only accepted if the fault is in data that the server ignores.
func parseAgrees(t *testing.T, packet []byte) {
	t.Helper()
	q := new(query)
	isQuery := q.parse(packet)
	m := new(dns.Msg)
	if !isQuery || m.Unpack(packet) != nil || len(m.Question) != 1 || binary.BigEndian.Uint32(packet[6:]) != 0 ||
		len(m.Extra) != int(binary.BigEndian.Uint16(packet[10:])) || len(m.Extra) > 2 {
		return
	}
	if q.rejectCode == dns.RcodeFormatError {
		section := packet[headerLen:]
		n := upstream.SkipName(section, 0)
		// The library reads a question without type and class, and follows pointers.
		incomplete := n < 0 || n+questionFixedLen > len(section)
		compressed := n >= pointerLen && section[n-pointerLen]&0xC0 == 0xC0
		opts := slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeOPT })
		oddOPT := len(opts) > 1 || len(opts) == 1 && opts[0].Header().Name != "." || m.Question[0].Qtype == dns.TypeOPT
		if !incomplete && !compressed && !oddOPT && !hasOddTSIG(m, len(packet)) {
			t.Errorf("%x is rejected, the library reads %v", packet, m)
		}
		return
	}
	if q.rejectCode != dns.RcodeSuccess {
		return
	}
	opt := m.IsEdns0()
	name, err := fqdn.ParseName(m.Question[0].Name)
	if err != nil || q.name != name || q.qtype != m.Question[0].Qtype ||
		m.Question[0].Qclass != dns.ClassINET || q.presentationName() != m.Question[0].Name ||
		q.id != m.Id || q.flags&flagRD != 0 != m.RecursionDesired ||
		q.flags&flagCD != 0 != m.CheckingDisabled || q.flags&flagAD != 0 != m.AuthenticatedData ||
		q.edns != (opt != nil) || q.do != (opt != nil && opt.Do()) {
		t.Errorf("%x\n got %+v\nwant %v", packet, q, m)
	}
	if opt != nil {
		if q.maxReply != min(max(int(opt.UDPSize()), minUDP), maxUDP) {
			t.Errorf("%x: size %d, the library reads %v", packet, q.maxReply, opt)
		}
	}
}

// hasOddTSIG reports whether a message of n octets has a TSIG record that the library reads, and that is
// malformed by RFC 8945 section 4.2: it is not the last record, has another class than ANY or no data, or a
// name in it is compressed.
func hasOddTSIG(m *dns.Msg, n int) bool {
	i := slices.IndexFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeTSIG })
	if i < 0 {
		return false
	}
	m.Compress = false
	return i < len(m.Extra)-1 || m.Extra[i].Header().Class != dns.ClassANY || m.Len() != n
}

// TestHandle_Panic: a panic costs its query the reply. The next query is answered.
func TestHandle_Panic(t *testing.T) {
	s := startServer(t, "loaded", Config{Upstream: func(context.Context, *dns.Msg) (*dns.Msg, error) { panic("fault") }})
	packet := mustPack(t, new(dns.Msg).SetQuestion("a.example.", dns.TypeA))
	if reply := s.exchangePacket(t, packet, 100*time.Millisecond); reply != nil {
		t.Errorf("got the reply %x, want none", reply)
	}
	s.exchange(t, "udp", new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA))
}

// TestRejection_TSIG: a signed query is not answered, because this server has no keys. The reply
// has an unsigned TSIG record with the error BADKEY as its last record. A malformed TSIG record,
// or one that is not the last, is a format error.
func TestRejection_TSIG(t *testing.T) {
	s := newServer(t, smallCluster, Config{})
	query := func(edns bool, change func(*dns.TSIG)) *dns.Msg {
		m := parseQuery("web.default.svc.cluster.local. A", edns)
		r := &dns.TSIG{
			Hdr:       dns.RR_Header{Name: "Key.example.", Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
			Algorithm: dns.HmacSHA256, TimeSigned: 1700000000, Fudge: 300, MACSize: 32, MAC: strings.Repeat("ab", 32), OrigId: m.Id,
		}
		change(r)
		m.Extra = append(m.Extra, r)
		return m
	}
	unchanged := func(*dns.TSIG) {}
	last := query(true, unchanged)
	slices.Reverse(last.Extra)
	two := query(false, unchanged)
	two.Extra = append(two.Extra, two.Extra[0])
	tooShort := mustPack(t, query(false, unchanged))
	tooShort[len(tooShort)-1] = 1 // other data that is not there
	compressed := mustPack(t, query(false, func(r *dns.TSIG) { r.Hdr.Name = "web.default.svc.cluster.local." }))
	at := headerLen + upstream.SkipName(compressed[headerLen:], 0) + questionFixedLen
	compressed = slices.Concat(compressed[:at], []byte{0xC0, headerLen}, compressed[at+upstream.SkipName(compressed[at:], 0):])
	long := strings.Repeat(strings.Repeat("k", 63)+".", 3)
	for _, tt := range []struct {
		what    string
		packet  []byte
		rcode   int
		hasTSIG bool
	}{
		{"signed", mustPack(t, query(false, unchanged)), dns.RcodeNotAuth, true},
		{"signed, with EDNS0", mustPack(t, query(true, unchanged)), dns.RcodeNotAuth, true},
		{"an unknown algorithm", mustPack(t, query(false, func(r *dns.TSIG) { r.Algorithm = "none." })), dns.RcodeNotAuth, true},
		{"a key name of other octets", mustPack(t, query(false, func(r *dns.TSIG) { r.Hdr.Name = `\255\192.` })), dns.RcodeNotAuth, true},
		{"without a MAC", mustPack(t, query(false, func(r *dns.TSIG) { r.MACSize, r.MAC = 0, "" })), dns.RcodeNotAuth, true},
		{"names that do not fit", mustPack(t, query(false, func(r *dns.TSIG) { r.Hdr.Name, r.Algorithm = long, long })),
			dns.RcodeNotAuth, true},
		{"not the last record", mustPack(t, last), dns.RcodeFormatError, false},
		{"two TSIG records", mustPack(t, two), dns.RcodeFormatError, false},
		{"too short", tooShort, dns.RcodeFormatError, false},
		{"a compressed key name", compressed, dns.RcodeNotAuth, true},
		{"class IN", mustPack(t, query(false, func(r *dns.TSIG) { r.Hdr.Class = dns.ClassINET })), dns.RcodeFormatError, false},
	} {
		m := new(dns.Msg)
		wire := handlePacket(t.Context(), s, tt.packet, overUDP, podAddr)
		if err := m.Unpack(wire); err != nil {
			t.Errorf("%s: %v in %x", tt.what, err, wire)
			continue
		}
		sig := m.IsTsig()
		if m.Rcode != tt.rcode || len(m.Answer) != 0 || len(m.Question) != 1 || (sig != nil) != tt.hasTSIG || len(wire) > 1232 {
			t.Errorf("%s:\n%v", tt.what, m)
		}
		if sig != nil &&
			(sig.Error != dns.RcodeBadKey || sig.MACSize != 0 || sig.TimeSigned != 1700000000 ||
				sig.Fudge != 300 || sig.Hdr.Class != dns.ClassANY || sig.OtherLen != 0) {
			t.Errorf("%s: %v", tt.what, sig)
		}
	}
}
