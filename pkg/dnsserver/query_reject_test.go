// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"testing"

	"github.com/miekg/dns"
)

// TestRejection_HasQuestionAndOPT: the reply to a rejected query repeats its question and has an
// OPT record, as far as both could be read (RFC 6891 section 7).
func TestRejection_HasQuestionAndOPT(t *testing.T) {
	s := newServer(t, "loaded", Config{})
	query := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetQuestion("Web.default.svc.cluster.local.", dns.TypeA).SetEdns0(1232, true)
		change(m)
		return mustPack(t, m)
	}
	badOption := query(func(*dns.Msg) {})
	binary.BigEndian.PutUint16(badOption[len(badOption)-2:], 1) // the length of the options, which are not there
	for _, tt := range []struct {
		what            string
		packet          []byte
		rcode           int
		hasQuestion, do bool
	}{
		{"NOTIFY", query(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented, true, true},
		{"UPDATE with records", query(func(m *dns.Msg) {
			m.Opcode = dns.OpcodeUpdate
			m.Ns = []dns.RR{&dns.A{Hdr: header("a.", dns.TypeA, 0), A: make([]byte, 4)}}
		}), dns.RcodeNotImplemented, true, false},
		{"two questions", query(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError, false, false},
		{"a broken OPT record", badOption, dns.RcodeFormatError, true, false},
		{"two OPT records", query(func(m *dns.Msg) { m.Extra = append(m.Extra, m.Extra[0]) }), dns.RcodeFormatError, true, true},
		{"an OPT record below the root", query(func(m *dns.Msg) { m.Extra[0].Header().Name = "a." }), dns.RcodeFormatError, true, false},
		{"another EDNS version", query(func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }), dns.RcodeBadVers, true, true},
	} {
		m := new(dns.Msg)
		if err := m.Unpack(handlePacket(t.Context(), s, tt.packet, overUDP, podAddr)); err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		opt := m.IsEdns0()
		if m.Rcode != tt.rcode || (len(m.Question) == 1 && m.Question[0].Name == "Web.default.svc.cluster.local.") != tt.hasQuestion ||
			(opt != nil && opt.Do()) != tt.do {
			t.Errorf("%s:\n%v", tt.what, m)
		}
	}
}
