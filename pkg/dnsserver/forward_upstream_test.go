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

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// validAddr is in the reply of the upstream server.
const validAddr = "192.0.2.1"

// newReply returns the reply to q with A records.
func newReply(t *testing.T, q *dns.Msg, addrs ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for _, a := range addrs {
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A " + a)
		if err != nil {
			t.Error(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

// validReply returns the reply to q with validAddr, as the only message.
func validReply(t *testing.T, q *dns.Msg) []dnstest.Message {
	return []dnstest.Message{{Wire: mustPack(t, newReply(t, q, validAddr))}}
}

// brokenRecords are records that the library does not parse, or changes.
var brokenRecords = []struct {
	name   string
	rrtype uint16
	data   []byte
}{
	{"EUI48 of three octets", dns.TypeEUI48, []byte{1, 2, 3}},
	{"HTTPS with unsorted keys", dns.TypeHTTPS, []byte{0, 1, 0, 0, 3, 0, 2, 1, 187, 0, 1, 0, 3, 2, 'h', '2'}},
	{"HTTPS with an empty ipv4hint", dns.TypeHTTPS, []byte{0, 1, 0, 0, 4, 0, 0}},
	{"APL of an unknown family", dns.TypeAPL, []byte{0, 99, 8, 1, 10}},
	{"NSEC with an empty block", dns.TypeNSEC, []byte{1, 'a', 0, 0, 0}},
	{"empty TXT", dns.TypeTXT, nil},
	{"LOC of three octets", dns.TypeLOC, []byte{0, 0x12, 0x16}},
	{"HINFO of one string", dns.TypeHINFO, []byte{3, 'c', 'p', 'u'}},
	{"unknown type", 65280, []byte{0xC0, 12}},
}

// rdataOf returns the RDATA of the only answer in a reply whose owner is a pointer to the
// question.
func rdataOf(t *testing.T, wire []byte) []byte {
	t.Helper()
	at := headerLen + upstream.SkipName(wire[headerLen:], 0) + questionFixedLen + 2 + recordFixedLen
	if wire[7] != 1 || at > len(wire) {
		t.Fatalf("no answer in %x", wire)
	}
	return wire[at : at+int(binary.BigEndian.Uint16(wire[at-2:]))]
}

// TestForward_OpaqueRecords: RDATA that the library does not parse, or would change, reaches
// the client unchanged: from the server and from the cache, over UDP and TCP.
func TestForward_OpaqueRecords(t *testing.T) {
	for _, record := range brokenRecords {
		for _, tcp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TCP %t", record.name, tcp), func(t *testing.T) {
				server := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
					wire := mustPack(t, new(dns.Msg).SetReply(q))
					wire[7] = 1
					wire = append(wire, 0xC0, 12, byte(record.rrtype>>8), byte(record.rrtype), 0, 1, 0, 0, 0, 60, 0, byte(len(record.data)))
					return []dnstest.Message{{Wire: append(wire, record.data...)}}
				})
				client := upstream.New(upstream.Config{Servers: []upstream.Server{{Addr: server.Addr, TCP: tcp}}})
				s := newServer(t, smallCluster, Config{Upstream: client.Exchange})
				packet := mustPack(t, new(dns.Msg).SetQuestion("www.example.", record.rrtype))
				for _, via := range []transport{overUDP, overTCP, overUDP} {
					if got := rdataOf(t, handlePacket(t.Context(), s, packet, via, podAddr)); !bytes.Equal(got, record.data) {
						t.Errorf("over %v: got % x, want % x", via, got, record.data)
					}
				}
				if n := server.OverUDP.Load() + server.OverTCP.Load(); n != 1 {
					t.Errorf("%d queries to the upstream server, want 1", n)
				}
				cached := answer{wire: handlePacket(t.Context(), s, packet, overUDP, podAddr)}
				if a := cached.withRecords(); len(a.answers) != 1 || a.failed() {
					t.Errorf("the records of the cached reply: %+v", a)
				}
			})
		}
	}
}

// TestForward_OnlyTruncated: a reply that the upstream servers have only incomplete, with TC, is never sent as a
// complete one: it has TC over UDP, and is SERVFAIL over TCP. Then TCP works, and the complete one is sent.
func TestForward_OnlyTruncated(t *testing.T) {
	complete := false
	s := newServer(t, smallCluster, Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		m := newReply(t, q, slices.Repeat([]string{validAddr}, 100)...)
		if !complete {
			m = newReply(t, q)
			m.Truncated = true
		}
		return m, nil
	}})
	for range 2 {
		for via, want := range map[transport]string{overUDP: "TC", overTCP: "SERVFAIL"} {
			for _, edns := range []bool{false, true} {
				if got := addresses(exchangeVia(t, s, via, podAddr, parseQuery("www.example. A", edns))); got != want {
					t.Errorf("over %v: got %s, want %s", via, got, want)
				}
			}
		}
	}
	complete = true
	if m := exchangeVia(t, s, overTCP, podAddr, parseQuery("other.example. A", false)); len(m.Answer) != 100 {
		t.Errorf("got %d records, want 100", len(m.Answer))
	}
}
