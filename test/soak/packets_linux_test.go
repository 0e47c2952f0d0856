// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

var packets = flag.Int("packets", 50_000, "the number of random packets")

// TestRandomPackets sends packets that no client sends, and after each 64 a query whose
// reply must be right. No packet may cause a panic.
func TestRandomPackets(t *testing.T) {
	s := start(t, dnstest.Start(t, dnstest.Reply(known)).Addr.String())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	flood, err := net.Dial("udp", s.addr) // the kernel drops the replies
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	for n := range *packets {
		if _, err := flood.Write(randomPacket(random)); err != nil {
			t.Fatal(err)
		}
		if n%64 == 63 {
			s.mustAnswer(t, "udp")
		}
	}
	s.mustAnswer(t, "tcp")
	now, most := s.resident(t)
	t.Logf("%d packets; resident %d MiB, at most %d MiB; %s", *packets, now, most, s.tally(t))
	if most > ceiling {
		t.Errorf("resident memory was %d MiB, the ceiling is %d", most, ceiling)
	}
	if n := s.count(t, "dnsconfigurer_dns_panics_total"); n != 0 {
		t.Errorf("%d panics:\n%s", n, s.Log())
	}
}

// tally returns the number of dropped packets.
func (s *server) tally(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d dropped", s.count(t, "dnsconfigurer_dns_dropped_total"))
}

// randomPacket returns random octets, or a valid query with random changes.
func randomPacket(random *rand.Rand) []byte {
	if random.IntN(4) == 0 {
		packet := make([]byte, random.IntN(random.IntN(4200)+1))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		return packet
	}
	packet := randomQuery(random)
	switch random.IntN(5) {
	case 0: // truncated
		return packet[:random.IntN(len(packet)+1)]
	case 1: // any opcode and flags
		binary.BigEndian.PutUint16(packet[2:], uint16(random.Uint32()))
	case 2: // other counts
		binary.BigEndian.PutUint16(packet[4+2*random.IntN(4):], uint16(random.IntN(4)))
	case 3: // compression pointers
		at := 12 + random.IntN(len(packet)-13)
		binary.BigEndian.PutUint16(packet[at:], 0xC000|uint16(random.IntN(len(packet))))
	}
	for range random.IntN(4) {
		packet[random.IntN(len(packet))] = byte(random.Uint32())
	}
	return packet
}

// randomQuery returns a valid query for a known or unknown name, of any type and class.
func randomQuery(random *rand.Rand) []byte {
	names := []string{"web-7.default.svc.cluster.local.", "_http._tcp.web-8.default.svc.cluster.local.", "none.default.svc.cluster.local.",
		"7.0.96.10.in-addr.arpa.", "www.example.", "cluster.local.", ".", `a\000\.b\255.example.`}
	q := new(dns.Msg).SetQuestion(names[random.IntN(len(names))], uint16(random.IntN(270)))
	if random.IntN(8) == 0 {
		q.Question[0].Qclass = uint16(random.IntN(256))
	}
	if random.IntN(2) == 0 {
		q.SetEdns0(uint16(random.Uint32()), random.IntN(2) == 0)
		for range random.IntN(4) {
			data := make([]byte, random.IntN(40))
			q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: uint16(random.IntN(20)), Data: data})
		}
	}
	packet, err := q.Pack()
	if err != nil {
		panic(err) // the names are valid
	}
	return packet
}
