// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	// On a machine under load the server runs late. It must not lose the queries of that time: a lost query is a failed
	// lookup that no fault of the test caused.
	large := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) })
		return errors.Join(err, set)
	}}
	must.Succeed(t, m.inside(ownNetwork, func() (err error) {
		conn, err = large.ListenPacket(t.Context(), "udp", netip.AddrPortFrom(outside, 53).String())
		return err
	}))
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
