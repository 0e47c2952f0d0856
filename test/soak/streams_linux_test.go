// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

const (
	// streamCeiling limits the peak of the resident memory with clients that do not read,
	// in MiB: below the memory limits of both manifests. GOMEMLIMIT is set, too: on a busy machine
	// the garbage would exceed the ceiling otherwise.
	streamCeiling  = 128
	streamGoMemory = "100MiB"

	streamClients = 16  // addresses
	streamConns   = 100 // connections, of all clients together
)

// large is a reply with a TXT RRset of 62 kB. Its name is the question's.
func large(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for i := range 240 {
		h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 3600}
		m.Answer = append(m.Answer, &dns.TXT{Hdr: h, Txt: []string{fmt.Sprintf("%03d", i) + strings.Repeat("x", 243)}})
	}
	return m
}

// TestUnreadReplies has 100 connections that send 64 queries each for replies of 62 kB, read
// nothing, and are opened again every 2 seconds: for one name, which is cached, and for names
// that all differ. Another client is answered over UDP and TCP, and the memory stays below the
// ceiling.
func TestUnreadReplies(t *testing.T) {
	t.Setenv("GOMEMLIMIT", streamGoMemory)
	for _, cached := range []bool{true, false} {
		t.Run(fmt.Sprintf("cached %t", cached), func(t *testing.T) {
			s := start(t, dnstest.Start(t, dnstest.Reply(large)).Addr.String())
			stop := make(chan struct{})
			var attack sync.WaitGroup
			for i := range streamConns {
				attack.Go(func() { s.sendUnread(i, cached, stop) })
			}
			for i, end := 0, time.Now().Add(10*time.Second); time.Now().Before(end); i++ {
				for _, network := range []string{"udp", "tcp"} {
					query := new(dns.Msg).SetQuestion(fmt.Sprintf("web-%d.default.svc.cluster.local.", i%services), dns.TypeA)
					reply, err := exchange(network, query, s.addr)
					if err != nil || !isRight(reply, i%services) {
						t.Fatalf("over %s: got %v, %v", network, reply, err)
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			close(stop)
			attack.Wait()
			now, most := s.resident(t)
			t.Logf("resident %d MiB, at most %d MiB", now, most)
			if most >= streamCeiling {
				t.Errorf("resident %d MiB, want less than %d", most, streamCeiling)
			}
		})
	}
}

// exchange sends a query up to six times: a busy machine may lose a datagram.
func exchange(network string, query *dns.Msg, addr string) (reply *dns.Msg, err error) {
	for range 6 {
		if reply, _, err = (&dns.Client{Net: network, Timeout: 20 * time.Second}).Exchange(query, addr); err == nil {
			break
		}
	}
	return reply, err
}

// sendUnread opens a connection every 2 seconds, sends queries and reads nothing.
func (s *server) sendUnread(i int, cached bool, stop <-chan struct{}) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 3, byte(1+i%streamClients))}, Timeout: time.Minute}
	for round := 0; ; round++ {
		c, err := d.Dial("tcp", s.addr)
		if err != nil {
			return
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		for j := range 64 {
			name := "large.example."
			if !cached {
				name = fmt.Sprintf("large-%d-%d-%d.example.", i, round, j)
			}
			query, err := new(dns.Msg).SetQuestion(name, dns.TypeTXT).Pack()
			if err != nil {
				break
			}
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
				break
			}
		}
		select {
		case <-stop:
			_ = c.Close()
			return
		case <-time.After(2 * time.Second):
			_ = c.Close()
		}
	}
}
