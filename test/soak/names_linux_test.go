// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

var duration = flag.Duration("duration", 5*time.Second, "the duration of the queries for random names")

const (
	// rate is the queries per second: a cluster of some hundred nodes with new names
	// only, and part of a processor.
	rate = 2000

	// ceiling limits the peak of the resident memory, in MiB. The server has 40 from the
	// first minute to the tenth: pages of the program, which are not counted here, 1,000
	// Services, and a cache of 20,000 answers. A full cache of 16 MiB, which the garbage
	// collector may double, adds 32. If the server kept memory for each requested name, it
	// would exceed the ceiling: 1.2 million names of 60 octets are 70 MiB more.
	ceiling = 96
)

// TestRandomNames sends queries for new names: of the cluster, which do not exist, and
// others, which miss the cache. Each gets the right reply, and so do existing names in
// between, and the memory stays below the ceiling.
func TestRandomNames(t *testing.T) {
	s := start(t, dnstest.Start(t, dnstest.Reply(known)).Addr.String())
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadBuffer(4 << 20)
	var answered, failed atomic.Int64
	received := make(chan struct{})
	go func() {
		defer close(received)
		buf := make([]byte, dns.MaxMsgSize)
		for {
			n, err := conn.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			reply := new(dns.Msg)
			if err == nil {
				err = reply.Unpack(buf[:n])
			}
			switch {
			case err != nil:
				t.Error(err)
			case reply.Rcode == dns.RcodeServerFailure && !strings.HasSuffix(reply.Question[0].Name, ".local."):
				failed.Add(1) // from the upstream server, or after lost packets
			default:
				checkReply(t, reply)
			}
			answered.Add(1)
		}
	}()
	sent := sendNames(t, s, conn)
	conn.SetReadDeadline(time.Now().Add(6 * time.Second)) // queries in flight, and their retries
	<-received
	now, most := s.resident(t)
	t.Logf("%d names in %v, %d answered, %d of them SERVFAIL; resident %d MiB, at most %d MiB",
		sent, *duration, answered.Load(), failed.Load(), now, most)
	// A busy machine loses packets, which are not sent again here.
	if right := int(answered.Load() - failed.Load()); right < sent/2 {
		t.Errorf("of %d queries %d were answered, %d of them with SERVFAIL", sent, answered.Load(), failed.Load())
	}
	if most > ceiling {
		t.Errorf("resident memory was %d MiB, the ceiling is %d", most, ceiling)
	}
	if n := s.count(t, "dnsconfigurer_dns_panics_total"); n != 0 {
		t.Errorf("%d panics:\n%s", n, s.Log())
	}
}

// sendNames sends queries at the rate for the duration, and one with a known answer over
// another socket after each hundred. It returns the number of queries.
func sendNames(t *testing.T, s *server, conn *net.UDPConn) (sent int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	report := begin.Add(time.Minute)
	for time.Since(begin) < *duration {
		<-tick.C
		for range rate / 100 { // a late tick is not made up for
			q := new(dns.Msg).SetQuestion(randomName(), dns.TypeA)
			if rand.IntN(2) == 0 {
				q.SetEdns0(1232, false)
			}
			packet, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(packet); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		if sent%100 == 0 {
			s.mustAnswer(t, "udp")
		}
		if time.Now().After(report) {
			now, most := s.resident(t)
			t.Logf("%d names: resident %d MiB, at most %d MiB", sent, now, most)
			report = report.Add(time.Minute)
		}
	}
	return sent
}

// randomName returns a new name.
func randomName() string {
	label := fmt.Sprintf("x%016x", rand.Uint64())
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
	if strings.HasSuffix(name, ".cluster.local.") {
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

// mustAnswer fails the test unless a query for a Service gets the right reply.
func (s *server) mustAnswer(t *testing.T, network string) {
	t.Helper()
	i := rand.IntN(services)
	q := new(dns.Msg).SetQuestion(fmt.Sprintf("web-%d.default.svc.cluster.local.", i), dns.TypeA)
	reply, err := exchange(network, q, s.addr)
	if err != nil || !isRight(reply, i) {
		t.Fatalf("Service %d over %s: %v, %v", i, network, err, reply)
	}
}
