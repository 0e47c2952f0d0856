// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

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
