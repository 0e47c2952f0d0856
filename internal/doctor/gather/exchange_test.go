// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// reply starts a UDP server that sends packets in reply to the first query.
func reply(t *testing.T, packets func(query *dns.Msg) [][]byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
