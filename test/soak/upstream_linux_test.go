// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// serveNames runs an upstream server until the test ends that answers each name otherwise,
// and the same name always the same. It returns its address.
func serveNames(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const workers = 4
	for range workers {
		go func() {
			buf := make([]byte, dns.MaxMsgSize)
			for {
				n, from, err := conn.ReadFromUDPAddrPort(buf)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				q := new(dns.Msg)
				if err != nil || q.Unpack(buf[:n]) != nil {
					continue
				}
				if reply, err := known(q).Pack(); err == nil {
					_, _ = conn.WriteToUDPAddrPort(reply, from)
				}
			}
		}()
	}
	return conn.LocalAddr().String()
}

// known is what upstream says to a query: by the hash of the name addresses, behind an
// alias or not, long texts, denials or failures.
func known(q *dns.Msg) *dns.Msg {
	name := strings.ToLower(q.Question[0].Name)
	h := fnv.New32a()
	h.Write([]byte(name))
	sum := h.Sum32()
	m := new(dns.Msg).SetReply(q)
	add := func(section *[]dns.RR, format string, args ...any) {
		if rr, err := dns.NewRR(fmt.Sprintf(format, args...)); err == nil {
			*section = append(*section, rr)
		}
	}
	address := fmt.Sprintf("198.18.%d.%d", sum>>8&0xFF, sum&0xFF)
	ttl := 1 + sum>>16&0x3FF
	switch kind := sum >> 16 % 100; {
	case kind < 40:
		add(&m.Answer, "%s %d IN A %s", name, ttl, address)
	case kind < 60:
		add(&m.Answer, "%s %d IN CNAME target-%d.example.", name, ttl, sum)
		add(&m.Answer, "target-%d.example. %d IN A %s", sum, ttl, address)
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
