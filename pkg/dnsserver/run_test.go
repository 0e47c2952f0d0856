// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestDrain: queries in flight when Run is told to end are answered, if upstream does
// within Config.Drain, and else with SERVFAIL, or their connection is closed; Run ends
// without an error either way, and the port is free.
func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		what     string
		drain    time.Duration
		upstream bool // answers
		want     string
	}{{"upstream answers", time.Minute, true, "192.0.2.2"}, {"upstream hangs", time.Millisecond, false, "SERVFAIL"}} {
		t.Run(tt.what, func(t *testing.T) {
			up := &resolver{hangs: make(chan struct{})}
			s := newTestServer(t, noChange, small, up.exchange)
			s.cfg.Drain = tt.drain
			s.run(t, "127.0.0.1:0")
			replies := make(chan string, 2)
			for _, network := range []string{"udp", "tcp"} {
				go func() {
					c := dns.Client{Net: network, Timeout: time.Minute}
					reply, _, err := c.Exchange(asking(network+".example. A", false), s.addr.String())
					switch {
					case err == nil:
						replies <- addresses(reply)
					case network == "tcp" && !tt.upstream:
						replies <- "SERVFAIL" // the connection was closed first
					default:
						replies <- err.Error()
					}
				}()
			}
			for deadline := time.Now().Add(time.Minute); up.asked.Load() < 2; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the queries do not arrive")
				}
			}
			s.stop()
			if tt.upstream {
				close(up.hangs)
			}
			for range 2 {
				got := <-replies
				if tt.upstream && strings.HasPrefix(got, "192.0.2.") {
					got = tt.want // one is the first, the other the second
				}
				if got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
			if err := <-s.ended; err != nil {
				t.Error(err)
			}
			s.ended <- nil // for the end of the test
			l, err := net.ListenPacket("udp", s.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		})
	}
}

// TestAnyPort: a port that the kernel chooses may be another's for UDP. Of a thousand,
// one in thirty is here.
func TestAnyPort(t *testing.T) {
	whichever := netip.MustParseAddrPort("127.0.0.1:0")
	for range 1000 {
		other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(whichever))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
	}
	for range 200 {
		sockets, err := Listen(t.Context(), []netip.AddrPort{whichever})
		if err != nil {
			t.Fatal(err)
		}
		sockets.Close()
	}
}

// TestReturned: what we have sent ourselves and comes back is refused, also a name that
// the cluster has, and nothing else is.
func TestReturned(t *testing.T) {
	up := &resolver{}
	s := newTestServer(t, noChange, small, up.exchange)
	s.cfg.Returned = func(q dns.Question) bool { return q.Qtype == dns.TypeHINFO }
	s.run(t, "127.0.0.1:0")
	s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
		for question, want := range map[string]string{"probe.example. HINFO": "REFUSED", "web.default.svc.cluster.local. HINFO": "REFUSED", "www.example. A": "192.0.2.1"} {
			if got := addresses(ask(question)); got != want {
				t.Errorf("%s: %s, want %s", question, got, want)
			}
		}
	})
	if n := up.asked.Load(); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}
