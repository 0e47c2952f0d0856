// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// question is the message that the tests append records to: a reply to a.b. for type A. Its
// name is at offset 12, and b. at offset 14.
var question = []byte{0, 7, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 1, 'b', 0, 0, 1, 0, 1}

// withRecord returns the message with an answer record of a.b.
func withRecord(rrtype uint16, data []byte) []byte {
	wire := slices.Clone(question)
	wire[7] = 1
	wire = append(wire, 0xC0, 12, byte(rrtype>>8), byte(rrtype), 0, 1, 0, 0, 0, 60, byte(len(data)>>8), byte(len(data)))
	return append(wire, data...)
}

// RDATA that may have compressed names is parsed or malformed, all other RDATA passes.
func TestUnpack_Data(t *testing.T) {
	const malformed, opaque = "malformed", "opaque"
	soa := make([]byte, 20)
	for _, tt := range []struct {
		name   string
		rrtype uint16
		data   []byte
		want   string // the RDATA in presentation format
	}{
		{"A", dns.TypeA, []byte{10, 0, 0, 1}, "10.0.0.1"},
		{"A of three octets", dns.TypeA, []byte{10, 0, 0}, opaque},
		{"A of five octets", dns.TypeA, []byte{10, 0, 0, 1, 2}, opaque},
		{"A without data", dns.TypeA, nil, opaque},
		{"empty TXT", dns.TypeTXT, nil, opaque},
		{"TXT with an empty string", dns.TypeTXT, []byte{0}, `""`},
		{"TXT that is cut off", dns.TypeTXT, []byte{2, 'x'}, opaque},
		{"DNAME with a pointer", dns.TypeDNAME, []byte{0xC0, 12}, opaque}, // not allowed: RFC 6672 section 2.5
		{"unknown type", 65280, []byte{0xC0, 12}, opaque},
		{"NS", dns.TypeNS, []byte{1, 'n', 0xC0, 14}, "n.b."},
		{"NS without data", dns.TypeNS, nil, malformed},
		{"NS that is too long", dns.TypeNS, []byte{0xC0, 14, 0}, malformed},
		{"NS with half a pointer", dns.TypeNS, []byte{0xC0}, malformed},
		{"CNAME that points at itself", dns.TypeCNAME, []byte{0xC0, 33}, malformed},
		{"SOA", dns.TypeSOA, slices.Concat([]byte{0xC0, 12, 0xC0, 14}, soa), "a.b. b. 0 0 0 0 0"},
		{"SOA without a serial", dns.TypeSOA, []byte{0xC0, 12, 0xC0, 14}, malformed},
		{"MX", dns.TypeMX, []byte{0, 10, 0xC0, 12}, "10 a.b."},
		{"MX without a name", dns.TypeMX, []byte{0, 10}, malformed},
		{"SRV with a pointer", dns.TypeSRV, []byte{0, 0, 0, 5, 0, 53, 0xC0, 12}, "0 5 53 a.b."},
		{"SRV without a name", dns.TypeSRV, []byte{0, 0, 0, 5, 0, 53}, malformed},
		{"NAPTR", dns.TypeNAPTR, []byte{0, 1, 0, 2, 1, 's', 0, 0, 0xC0, 12}, `1 2 "s" "" "" a.b.`},
		{"NAPTR of two strings", dns.TypeNAPTR, []byte{0, 1, 0, 2, 1, 's', 0}, malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := upstream.Unpack(withRecord(tt.rrtype, tt.data))
			if tt.want == malformed {
				if !errors.Is(err, upstream.ErrMalformed) || len(m.Question) != 1 {
					t.Errorf("got %v, %v, want the question and %v", m, err, upstream.ErrMalformed)
				}
				return
			}
			if err != nil || len(m.Answer) != 1 || m.Id != 7 || m.Answer[0].Header().Name != "a.b." || m.Answer[0].Header().Ttl != 60 {
				t.Fatalf("got %v, %v", m, err)
			}
			if tt.want == opaque {
				r, ok := m.Answer[0].(*dns.RFC3597)
				if !ok || r.Rdata != hex.EncodeToString(tt.data) {
					t.Errorf("got %v, want % x", m.Answer[0], tt.data)
				}
				return
			}
			if got := m.Answer[0].String(); !strings.HasSuffix(got, "\t"+tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A message that ends before the records that its header counts is malformed. What is before
// the end is returned.
func TestUnpack_Cut(t *testing.T) {
	whole := withRecord(dns.TypeA, []byte{10, 0, 0, 1})
	for n := range whole {
		m, err := upstream.Unpack(whole[:n])
		if !errors.Is(err, upstream.ErrMalformed) || (len(m.Question) == 1) != (n >= len(question)) || len(m.Answer) != 0 {
			t.Errorf("%d octets: got %v, %v", n, m, err)
		}
	}
	if m, err := upstream.Unpack(append(whole, 1, 2, 3)); err != nil || len(m.Answer) != 1 {
		t.Errorf("octets after the last record: got %v, %v", m, err)
	}
}

// TTLs are at most seven days, also those with the highest bit.
func TestUnpack_TTL(t *testing.T) {
	for ttl, want := range map[uint32]uint32{0: 0, 604800: 604800, 604801: 604800, 1 << 31: 604800, 1<<32 - 1: 604800} {
		wire := withRecord(dns.TypeA, []byte{10, 0, 0, 1})
		binary.BigEndian.PutUint32(wire[len(wire)-10:], ttl)
		if m, err := upstream.Unpack(wire); err != nil || m.Answer[0].Header().Ttl != want {
			t.Errorf("TTL %d: got %v, %v, want %d", ttl, m, err, want)
		}
	}
}

// The records of a single hop never fail a reply: its answer does not depend on them.
func TestUnpack_TransportRecords(t *testing.T) {
	for _, rrtype := range []uint16{dns.TypeOPT, dns.TypeTSIG} {
		for _, data := range [][]byte{nil, {0}, {0, 8, 0, 1, 0}, bytes.Repeat([]byte{0xFF}, 40)} {
			wire := slices.Clone(question)
			wire[11] = 1
			wire = append(wire, 0, byte(rrtype>>8), byte(rrtype), 4, 0, 1, 0, 0, 0, 0, byte(len(data)))
			m, err := upstream.Unpack(append(wire, data...))
			if err != nil || len(m.Extra) != 1 {
				t.Fatalf("type %d with % x: got %v, %v", rrtype, data, m, err)
			}
			opt, tsig := m.IsEdns0(), m.IsTsig() // panic for another Go type
			if (opt != nil) != (rrtype == dns.TypeOPT) || (tsig != nil) != (rrtype == dns.TypeTSIG) {
				t.Errorf("type %d with % x: got %v", rrtype, data, m)
			}
			if opt != nil && m.Rcode != 16 {
				t.Errorf("rcode %d, want 16 from the OPT record", m.Rcode)
			}
		}
	}
}

// What Unpack accepts can be packed, and has then the same records. What the library packs
// is unpacked without opaque records.
func FuzzUnpack(f *testing.F) {
	f.Add(question)
	f.Add(withRecord(dns.TypeA, []byte{10, 0, 0, 1}))
	f.Add(withRecord(dns.TypeTXT, nil))
	f.Add(withRecord(dns.TypeLOC, []byte{0, 0x12, 0x16}))
	f.Add(withRecord(dns.TypeNAPTR, []byte{0, 1, 0, 2, 1, 's', 0, 0, 0xC0, 12}))
	f.Add(withRecord(dns.TypeHTTPS, []byte{0, 1, 0, 0, 4, 0, 0}))
	f.Add(withRecord(dns.TypeOPT, []byte{0, 8, 0, 1, 0}))
	f.Fuzz(func(t *testing.T, wire []byte) {
		m, err := upstream.Unpack(wire)
		if err != nil {
			if !errors.Is(err, upstream.ErrMalformed) {
				t.Errorf("%v is not %v", err, upstream.ErrMalformed)
			}
			return
		}
		m.Rcode &= 15 // the library wants an OPT record for more
		m.Compress = true
		packed, err := m.Pack()
		if err != nil {
			if len(wire) < 4096 { // a long message may not fit when its names are not compressed
				t.Fatalf("cannot pack %v: %v", m, err)
			}
			return
		}
		again, err := upstream.Unpack(packed)
		if err != nil {
			t.Fatalf("cannot unpack %x of %v: %v", packed, m, err)
		}
		for i, section := range [][]dns.RR{m.Answer, m.Ns} {
			other := [][]dns.RR{again.Answer, again.Ns}[i]
			if len(section) != len(other) {
				t.Fatalf("%d records, then %d", len(section), len(other))
			}
			for i := range section {
				if section[i].String() != other[i].String() {
					t.Errorf("%v, then %v", section[i], other[i])
				}
			}
		}
	})
}
