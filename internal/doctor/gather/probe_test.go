// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestRun(t *testing.T) {
	records := dnstest.Reply(dnstest.Records(t, "a.example. 5 IN A 192.0.2.1\na.example. 5 IN AAAA 2001:db8::1"))
	good := dnstest.Start(t, records)
	lost := 0
	lossy := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
		if lost++; lost == 1 {
			return nil
		}
		return records(network, q)
	})
	query := func(s *dnstest.Server, protocol, name, qtype string) doctor.Query {
		return doctor.Query{Server: s.Addr, Role: doctor.RoleFlag, Protocol: protocol, Name: name, Type: qtype}
	}
	got := Run(t.Context(), []doctor.Query{
		query(good, doctor.UDP, "a.example.", "A"), query(lossy, doctor.UDP, "a.example.", "A"),
		query(good, doctor.TCP, "a.example.", "AAAA"), query(good, doctor.UDP, "b.example.", "A"),
	})
	want := []struct {
		rcode   string
		answers []string
	}{
		{"NOERROR", []string{"192.0.2.1"}},
		{"", nil},
		{"NOERROR", []string{"192.0.2.1"}},
		{"NOERROR", []string{"2001:db8::1"}},
		{"NXDOMAIN", nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		p := got[i]
		if p.RCode != w.rcode || !slices.Equal(p.Answers, w.answers) ||
			(p.RCode == "") != (p.Error == "timeout") || p.Role != doctor.RoleFlag || p.Micros <= 0 {
			t.Errorf("%d: %+v, want %+v", i, p, w)
		}
	}
}

// TestRun_OddReplies: an rcode without a name is its number, and a record without data has no address.
// An rcode of the log of a container is one that a probe can have.
func TestRun_OddReplies(t *testing.T) {
	var code atomic.Int32
	server := dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		r := new(dns.Msg).SetRcode(q, int(code.Load()))
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			empty := dns.TypeToRR[qtype]()
			*empty.Header() = dns.RR_Header{Name: "a.", Rrtype: qtype, Class: dns.ClassINET}
			r.Answer = append(r.Answer, empty)
		}
		return r
	}))
	plan := []doctor.Query{{Server: server.Addr, Protocol: doctor.UDP, Name: "a.", Type: "A"}}
	for n := range int32(16) {
		code.Store(n)
		got := Run(t.Context(), plan)
		if len(got) != 1 || !IsRCode(got[0].RCode) || len(got[0].Answers) != 0 {
			t.Errorf("rcode %d: %+v", n, got)
		}
	}
	for text, want := range map[string]bool{"NXDOMAIN": true, "12": true, "4095": true,
		"4096": false, "-1": false, "012": false, "+12": false, "0": false, "": false, "OK": false} {
		if got := IsRCode(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

// TestRun_Parallel has a server that replies after it has got all questions once: a question does not
// wait for the reply to another.
func TestRun_Parallel(t *testing.T) {
	var plan []doctor.Query
	var mutex sync.Mutex
	waiting := map[string]bool{}
	for i := range 7 {
		waiting[fmt.Sprintf("n%d.example.", i)] = true
	}
	names := slices.Sorted(maps.Keys(waiting))
	server := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
		mutex.Lock()
		defer mutex.Unlock()
		if len(waiting) > 0 {
			delete(waiting, q.Question[0].Name)
			return nil
		}
		return dnstest.Reply(dnstest.Records(t, q.Question[0].Name+" 5 IN A 192.0.2.1"))(network, q)
	})
	for _, name := range names {
		plan = append(plan, doctor.Query{Server: server.Addr, Protocol: doctor.UDP, Name: name, Type: "A"})
	}
	first := Run(t.Context(), plan)[:2] // the second query for the first question has a reply
	if first[0].RCode != "" || first[1].RCode != "NOERROR" || first[1].Name != plan[0].Name {
		t.Errorf("%+v", first)
	}
}

// TestRun_Cancelled: the end of the context ends the probes.
func TestRun_Cancelled(t *testing.T) {
	silent := dnstest.Start(t, func(string, *dns.Msg) []dnstest.Message { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	plan := slices.Repeat([]doctor.Query{{Server: silent.Addr, Protocol: doctor.UDP, Name: "a.", Type: "A"}}, 100)
	got := Run(ctx, plan)
	if len(got) != len(plan) || got[99].RCode != "" || got[99].Error == "" {
		t.Errorf("%d probes, the last: %+v", len(got), got[len(got)-1])
	}
}

// reply starts a UDP server that sends packets in reply to the first query.
func reply(t *testing.T, packets func(query *dns.Msg) [][]byte) netip.AddrPort {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, dns.MaxMsgSize)
		n, from, err := conn.ReadFrom(buf)
		query := new(dns.Msg)
		if err != nil || query.Unpack(buf[:n]) != nil {
			return
		}
		for _, p := range packets(query) {
			_, _ = conn.WriteTo(p, from)
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestExchange_IgnoresInvalidAndForeignReplies(t *testing.T) {
	query := new(dns.Msg).SetQuestion("a.", dns.TypeA)
	server := reply(t, func(query *dns.Msg) [][]byte {
		otherID := new(dns.Msg).SetReply(query)
		otherID.Id++
		otherType := new(dns.Msg).SetReply(query)
		otherType.Question = []dns.Question{{Name: "a.", Qtype: dns.TypeAAAA, Qclass: dns.ClassINET}}
		packets := [][]byte{{1, 2, 3}}
		for _, m := range []*dns.Msg{otherID, otherType, new(dns.Msg).SetRcode(query, dns.RcodeNameError)} {
			p, err := m.Pack()
			if err != nil {
				t.Error(err)
			}
			packets = append(packets, p, p[:len(p)-1])
		}
		return packets
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Exchange(ctx, "udp", server, query)
	if err != nil || r.Rcode != dns.RcodeNameError || r.Id != query.Id {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestExchange_EndsWithContext(t *testing.T) {
	server := reply(t, func(*dns.Msg) [][]byte { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	if r, err := Exchange(ctx, "udp", server, new(dns.Msg).SetQuestion("a.", dns.TypeA)); err == nil || time.Since(start) > time.Minute {
		t.Errorf("got %v, %v after %v", r, err, time.Since(start))
	}
}
