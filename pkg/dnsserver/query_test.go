// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestRefusals has what no source is asked, and the rcode that it gets.
func TestRefusals(t *testing.T) {
	s := serve(t, "loaded", nil)
	query := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA)
		change(m)
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	twice := func(m *dns.Msg) { m.Extra = append(m.Extra, m.Extra[0]) }
	tests := []struct {
		what   string
		packet []byte
		want   int
	}{
		{"a header alone", make([]byte, headerLen), dns.RcodeFormatError},
		{"a header that announces a question", query(func(*dns.Msg) {})[:headerLen], dns.RcodeFormatError},
		{"a header that announces an OPT record", query(func(m *dns.Msg) { m.SetEdns0(1232, false) })[:len(query(func(*dns.Msg) {}))], dns.RcodeFormatError},
		{"a question that ends too early", query(func(*dns.Msg) {})[:20], dns.RcodeFormatError},
		{"a name that points at itself", append(query(func(*dns.Msg) {})[:headerLen], 0xC0, headerLen, 0, 1, 0, 1), dns.RcodeFormatError},
		{"two questions (RFC 9619)", query(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError},
		{"an answer in a query", query(func(m *dns.Msg) { m.Answer = []dns.RR{&dns.A{Hdr: header(".", dns.TypeA, 0), A: make([]byte, 4)}} }), dns.RcodeFormatError},
		{"two OPT records (RFC 6891)", query(func(m *dns.Msg) { m.SetEdns0(1232, false); twice(m) }), dns.RcodeFormatError},
		{"EDNS of another version", query(func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), dns.RcodeBadVers},
		{"NOTIFY", query(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented},
		{"UPDATE", query(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"CHAOS", query(func(m *dns.Msg) {
			m.Question[0] = dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
		}), dns.RcodeRefused},
		{"a transfer", query(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused},
		{"nobody to forward to", query(func(m *dns.Msg) { m.Question[0].Name = "example.com." }), dns.RcodeRefused},
	}
	for _, tt := range tests {
		reply := s.raw(t, tt.packet, 5*time.Second)
		if len(reply) < headerLen || !bytes.Equal(reply[:2], tt.packet[:2]) || reply[2]&0x80 == 0 {
			t.Errorf("%s: the reply is %x", tt.what, reply)
			continue
		}
		rcode := int(reply[3] & 15)
		if m := new(dns.Msg); m.Unpack(reply) == nil {
			rcode = m.Rcode
		}
		if rcode != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, dns.RcodeToString[rcode], dns.RcodeToString[tt.want])
		}
	}
}

// TestSilence has what must not be answered; the server answers the next query.
func TestSilence(t *testing.T) {
	s := serve(t, "loaded", nil)
	reply, err := new(dns.Msg).SetQuestion("a.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	reply[2] |= 0x80
	for _, packet := range [][]byte{{}, make([]byte, headerLen-1), reply} {
		if _, isQuery := new(query).parse(packet); isQuery {
			t.Errorf("%x is a query", packet)
		}
		if reply := handled(t.Context(), s.Server, packet, overUDP, pod()); reply != nil {
			t.Errorf("%x gets %x", packet, reply)
		}
	}
	if text(s.exchange(t, "udp", new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA))) == "" {
		t.Error("no reply")
	}
}

// TestSize holds replies to what the client takes: 600 addresses fit into no UDP reply,
// and all come over TCP.
func TestSize(t *testing.T) {
	cluster := "namespace default\nservice default/big\nslice default/big"
	for i := range 600 {
		cluster += fmt.Sprintf(" 10.96.%d.%d", i/250, i%250)
	}
	s := serve(t, cluster+"\nloaded", nil)
	for _, tt := range []struct{ announced, most int }{{0, 512}, {100, 512}, {512, 512}, {1231, 1231}, {1232, 1232}, {1233, 1232}, {65535, 1232}} {
		m := new(dns.Msg).SetQuestion("big.default.svc.cluster.local.", dns.TypeA)
		if tt.announced > 0 {
			m.SetEdns0(uint16(tt.announced), false)
		}
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply := s.raw(t, packet, 5*time.Second)
		if len(reply) > tt.most || len(reply) < tt.most-16 || reply[2]&0x02 == 0 {
			t.Errorf("a client that takes %d gets %d octets, TC %t; want almost %d", tt.announced, len(reply), reply[2]&0x02 != 0, tt.most)
		}
		if n := int(binary.BigEndian.Uint16(reply[6:])); n == 0 || n == 600 {
			t.Errorf("a client that takes %d gets %d addresses", tt.announced, n)
		}
	}
	whole := s.exchange(t, "tcp", new(dns.Msg).SetQuestion("big.default.svc.cluster.local.", dns.TypeA))
	if whole.Truncated || len(whole.Answer) != 600 {
		t.Errorf("over TCP: %d addresses, TC %t", len(whole.Answer), whole.Truncated)
	}
}

// TestParse_AgreesWithLibrary has all variants of queries of all types.
func TestParse_AgreesWithLibrary(t *testing.T) {
	accepted := 0
	for _, name := range []string{".", "web.default.svc.cluster.local.", `a\.b\000\255.EXAMPLE.`} {
		for _, qtype := range questionTypes {
			for _, m := range variants(name, qtype) {
				packet, err := m.Pack()
				if err != nil {
					t.Fatal(err)
				}
				if parseAgrees(t, packet) {
					accepted++
				}
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d queries were accepted", accepted)
	}
}

// FuzzParse: the parser agrees with the library, and a rejection is a reply that the client
// accepts.
func FuzzParse(f *testing.F) {
	packet, err := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeSRV).SetEdns0(1232, true).Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packet)
	f.Add(packet[:len(packet)-11])
	for _, packet := range seeds(f) {
		f.Add(packet)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		parseAgrees(t, packet)
		q := new(query)
		rcode, isQuery := q.parse(packet)
		if !isQuery {
			return
		}
		for _, a := range []answer{{rcode: rcode}, failure(fromServer, dns.ExtendedErrorCodeOther, "fuzz")} {
			wire := q.reply(a, nil).wire
			if len(wire) > q.size {
				t.Fatalf("%d octets for a client that accepts %d", len(wire), q.size)
			}
			if !bytes.Equal(wire[:2], packet[:2]) || wire[2]&0x80 == 0 {
				t.Fatalf("%x is not a reply to %x", wire, packet)
			}
		}
	})
}

// parseAgrees parses a packet, compares the query with what the library reads, and reports
// whether it was accepted. What the library cannot read is only accepted if the fault is in
// data that the server ignores.
func parseAgrees(t *testing.T, packet []byte) bool {
	t.Helper()
	q := new(query)
	rcode, isQuery := q.parse(packet)
	m := new(dns.Msg)
	if !isQuery || m.Unpack(packet) != nil || len(m.Question) != 1 || len(m.Answer)+len(m.Ns) > 0 ||
		len(m.Extra) != int(binary.BigEndian.Uint16(packet[10:])) || len(m.Extra) > 2 {
		return false
	}
	if rcode == dns.RcodeFormatError {
		compressed := bytes.ContainsFunc(packet[headerLen:], func(r rune) bool { return r >= 0xC0 })
		opts := slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeOPT })
		odd := len(opts) > 1 || len(opts) == 1 && opts[0].Header().Name != "." || m.Question[0].Qtype == dns.TypeOPT
		if !compressed && !odd {
			t.Errorf("%x is rejected, the library reads %v", packet, m)
		}
		return false
	}
	if rcode != dns.RcodeSuccess {
		return false
	}
	opt := m.IsEdns0()
	name, err := fqdn.ParseName(m.Question[0].Name)
	if err != nil || q.name != name || q.qtype != m.Question[0].Qtype || m.Question[0].Qclass != dns.ClassINET || q.owner() != m.Question[0].Name ||
		q.id != m.Id || q.flags&flagRD != 0 != m.RecursionDesired || q.flags&flagCD != 0 != m.CheckingDisabled || q.flags&flagAD != 0 != m.AuthenticatedData ||
		q.edns != (opt != nil) || q.do != (opt != nil && opt.Do()) {
		t.Errorf("%x\nis  %+v\nnot %v", packet, q, m)
	}
	if opt != nil {
		_, count := q.searchOption(autopath.DefaultOption)
		local := slices.DeleteFunc(slices.Clone(opt.Option), func(o dns.EDNS0) bool { return o.Option() != autopath.DefaultOption })
		if q.size != min(max(int(opt.UDPSize()), minUDP), maxUDP) || count != len(local) {
			t.Errorf("%x: size %d, %d search lists, the library reads %v", packet, q.size, count, opt)
		}
	}
	return true
}

// TestPanic has an upstream with a fault of ours in it.
func TestPanic(t *testing.T) {
	s := serve(t, "loaded", func(context.Context, *dns.Msg) (*dns.Msg, error) { panic("fault") })
	packet, err := new(dns.Msg).SetQuestion("a.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if reply := s.raw(t, packet, 100*time.Millisecond); reply != nil {
		t.Errorf("the reply is %x", reply)
	}
	s.exchange(t, "udp", new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA))
}
