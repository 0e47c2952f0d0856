// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

var (
	soak    = flag.Duration("duration", 5*time.Second, "the duration of the queries for random names")
	packets = flag.Int("packets", 50_000, "the number of random packets")
)

const (
	// soakRate is the queries per second: a cluster of some hundred nodes with new names
	// only, and part of a processor.
	soakRate = 2000

	// soakCeiling limits the peak of the resident memory, in MiB. The server had 34 after
	// 200,000 names in two minutes, without the pages of the program. A full cache of 16 MiB, which the garbage
	// collector may double, adds 32. If the server kept memory for each requested name, it
	// would exceed the ceiling: 1.2 million names of 60 octets are 70 MiB more.
	soakCeiling = 96
)

// startSoak starts a cluster DNS server that forwards to an upstream server with the handler.
func startSoak(t *testing.T, upstream dnstest.Handler, goLimit string) *server {
	t.Helper()
	return startClusterDNS(t, process.Build(t), dnstest.Start(t, upstream).Addr.String(), goLimit, "")
}

// TestRandomNames sends queries for new names: of the cluster, which do not exist, and
// others, which miss the cache. Each gets the right reply, and so do existing names in
// between, and the memory stays below the ceiling.
func TestRandomNames(t *testing.T) {
	s := startSoak(t, dnstest.Reply(known), "")
	failed, sent := 0, 0
	check := func(reply *dns.Msg) string {
		if reply.Rcode == dns.RcodeServerFailure && !strings.HasSuffix(reply.Question[0].Name, ".local.") {
			failed++ // from the upstream server, or after lost packets
		} else {
			checkReply(t, reply)
		}
		return ""
	}
	next := func() *lookup {
		if sent++; sent%100 == 0 {
			s.mustAnswer(t, "udp")
		}
		return &lookup{kind: ofOthers, name: randomName(), payload: uint16(rand.IntN(2)) * 1232, check: check}
	}
	r := run(t, load{from: loadAddr, rate: soakRate, next: next}, s, *soak, 1)
	if right := sum(r.right) - failed; right < sent/2 {
		t.Errorf("of %d queries %d were answered, %d of them with SERVFAIL", sent, sum(r.right), failed)
	}
	t.Logf("%d names, %d answered, %d of them SERVFAIL", sent, sum(r.right), failed)
	s.checkSoak(t, soakCeiling)
}

// randomName returns a new name.
func randomName() string {
	label := randomLabel()
	switch rand.IntN(8) {
	case 0:
		return label + ".default.svc.cluster.local."
	case 1:
		return "web-1." + label + ".svc.cluster.local."
	case 2:
		return label + ".default.pod.cluster.local."
	case 3:
		return "_" + label + "._tcp.web-1.default.svc.cluster.local."
	default:
		return label + ".example."
	}
}

// checkReply compares a reply with the known one for its name.
func checkReply(t *testing.T, reply *dns.Msg) {
	if len(reply.Question) != 1 {
		t.Errorf("%d questions in a reply", len(reply.Question))
		return
	}
	name := reply.Question[0].Name
	if strings.HasSuffix(name, "."+zone) {
		if reply.Rcode != dns.RcodeNameError || len(reply.Ns) != 1 || reply.Ns[0].Header().Rrtype != dns.TypeSOA {
			t.Errorf("%s: %v", name, reply)
		}
		return
	}
	want := known(reply)
	if want.Rcode != reply.Rcode || !reply.Truncated && !slices.Equal(dataOf(want.Answer), dataOf(reply.Answer)) {
		t.Errorf("%s: %v, want %v", name, reply, want)
	}
}

// dataOf returns sorted records without their TTLs.
func dataOf(records []dns.RR) []string {
	var list []string
	for _, rr := range records {
		rr = dns.Copy(rr)
		rr.Header().Ttl = 0
		list = append(list, rr.String())
	}
	slices.Sort(list)
	return list
}

// known is the upstream server's reply to a query. The hash of the name decides between
// addresses, with or without an alias, long lists, denials and failures.
func known(q *dns.Msg) *dns.Msg {
	name := strings.ToLower(q.Question[0].Name)
	sum := hash(name)
	m := new(dns.Msg).SetReply(q)
	add := func(section *[]dns.RR, format string, args ...any) {
		if rr, err := dns.NewRR(fmt.Sprintf(format, args...)); err == nil {
			*section = append(*section, rr)
		}
	}
	ttl := 1 + sum>>16&0x3FF
	switch kind := sum >> 16 % 100; {
	case kind < 40:
		add(&m.Answer, "%s %d IN A %s", name, ttl, addressOf(name))
	case kind < 60:
		add(&m.Answer, "%s %d IN CNAME target-%d.example.", name, ttl, sum)
		add(&m.Answer, "target-%d.example. %d IN A %s", sum, ttl, addressOf(name))
	case kind < 75:
		for i := range 1 + sum%30 {
			add(&m.Answer, "%s %d IN A 198.18.%d.%d", name, ttl, i, sum&0xFF)
		}
	case kind < 98:
		m.Rcode = dns.RcodeNameError
		add(&m.Ns, ". %d IN SOA ns.example. admin.example. %d 2 3 4 %d", ttl, sum, ttl)
	case kind < 99:
		m.Rcode = dns.RcodeServerFailure
	default:
		m.Rcode = dns.RcodeRefused
	}
	return m
}

// mustAnswer fails the test unless a query for a Service gets the right reply. It is sent up to six
// times: a busy machine may lose a datagram.
func (s *server) mustAnswer(t *testing.T, network string) {
	t.Helper()
	l := serviceLookup(rand.IntN(services))
	client := &dns.Client{Net: network, Timeout: 20 * time.Second}
	var reply *dns.Msg
	var err error
	for range 6 {
		if reply, _, err = client.Exchange(new(dns.Msg).SetQuestion(l.name, dns.TypeA), s.addr.String()); err == nil {
			break
		}
	}
	if err != nil || l.problem(reply) != "" {
		t.Fatalf("%s over %s: %v, %v", l.name, network, err, reply)
	}
}

// checkSoak compares the peak of the resident memory with a ceiling: without pages of files, which the
// kernel drops before a cgroup exceeds its limit. The server has no work left, and no query made it panic.
func (s *server) checkSoak(t *testing.T, ceiling int) {
	t.Helper()
	peak, err1 := s.Memory("VmHWM")
	files, err2 := s.Memory("RssFile")
	must.Succeed(t, errors.Join(err1, err2))
	t.Logf("the resident memory was %d MiB", (peak-files)/1024)
	if most := (peak - files) / 1024; most >= ceiling {
		t.Errorf("the resident memory was %d MiB, want less than %d", most, ceiling)
	}
	s.settle(t)
}

// TestUnreadReplies has 100 connections that send 64 queries each for replies of 62 kB, read
// nothing, and are opened again every 2 seconds: for one name, which is cached, and for names
// that all differ. Another client is answered over UDP and TCP, and the memory stays below the
// smaller limit of the two manifests: 156 MiB, most of it garbage up to GOMEMLIMIT.
func TestUnreadReplies(t *testing.T) {
	for title, names := range map[string]func() string{"cached": always(bigName), "not cached": random(bigName)} {
		t.Run(title, func(t *testing.T) {
			s := startSoak(t, answer, nodeGoMemory)
			ctx, stop := context.WithCancel(t.Context())
			var attack sync.WaitGroup
			attack.Go(func() {
				a := &attacker{t: t, to: s.addr, pace: 1}
				connect(ctx, a, s.addr.String(), 16, 100, 200, pipeline(64, 2*time.Second, query(dns.TypeTXT, names)))
			})
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				s.mustAnswer(t, "udp")
				s.mustAnswer(t, "tcp")
			}
			stop()
			attack.Wait()
			s.checkSoak(t, nodeMemory)
		})
	}
}

// TestRandomPackets sends packets that no client sends, and after each 64 a query whose
// reply must be right. No packet may cause a panic.
func TestRandomPackets(t *testing.T) {
	s := startSoak(t, dnstest.Reply(known), "")
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	flood, err := net.Dial("udp", s.addr.String()) // the kernel drops the replies
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	for n := range *packets {
		must.Get(flood.Write(randomPacket(random)))(t)
		if n%64 == 63 {
			s.mustAnswer(t, "udp")
		}
	}
	s.mustAnswer(t, "tcp")
	t.Logf("%d packets, %v dropped", *packets, process.Metrics(s.http)["dnsconfigurer_dns_dropped_total"])
	s.checkSoak(t, soakCeiling)
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
