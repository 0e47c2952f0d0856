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

var packets = flag.Int("packets", 50_000, "how many random packets are sent")

// TestRandomPackets sends what no client would, and with each 64th packet a query that is
// answered rightly. None is a fault of the server.
func TestRandomPackets(t *testing.T) {
	s := start(t, dnstest.Start(t, dnstest.Reply(known)).Addr.String())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	flood, err := net.Dial("udp", s.addr) // the replies stay in the kernel, which drops them
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

// tally says what became of the packets that are no queries.
func (s *server) tally(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d dropped", s.count(t, "dnsconfigurer_dns_dropped_total"))
}

// randomPacket is octets, or a query that was right before something happened to it.
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
	case 1: // of any opcode and flags
		binary.BigEndian.PutUint16(packet[2:], uint16(random.Uint32()))
	case 2: // of other counts
		binary.BigEndian.PutUint16(packet[4+2*random.IntN(4):], uint16(random.IntN(4)))
	case 3: // with pointers in it
		at := 12 + random.IntN(len(packet)-13)
		binary.BigEndian.PutUint16(packet[at:], 0xC000|uint16(random.IntN(len(packet))))
	}
	for range random.IntN(4) {
		packet[random.IntN(len(packet))] = byte(random.Uint32())
	}
	return packet
}

// randomQuery is right: about a name that is known or not, of any type and class.
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
		panic(err) // none of these names
	}
	return packet
}
