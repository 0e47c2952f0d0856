// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// internet is the DNS server of all names outside the cluster.
type internet struct {
	silent atomic.Pointer[string] // the domain without replies; nil: none
}

// startOutside serves records until t ends. Other names do not exist.
func (m *machine) startOutside(t *testing.T, text string) *internet {
	t.Helper()
	i, reply := new(internet), dnstest.Records(t, text)
	var conn net.PacketConn
	err := m.inside(func() (err error) {
		conn, err = net.ListenPacket("udp", netip.AddrPortFrom(outside, 53).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := dnstest.Serve(conn, nil, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		if domain := i.silent.Load(); domain != nil && dns.IsSubDomain(*domain, q.Question[0].Name) {
			return nil
		}
		return reply(q)
	}))
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}
