// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestRun_Drain ends the context of Run while queries are in flight. They are answered if the
// upstream server replies within Config.Drain. Otherwise they get SERVFAIL, or their connection
// is closed. Run returns nil, and the port is free.
func TestRun_Drain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		drain   time.Duration
		replies bool // upstream
		want    string
	}{{"upstream replies", time.Minute, true, "192.0.2.2"}, {"upstream does not reply", time.Millisecond, false, "SERVFAIL"}} {
		t.Run(tt.name, func(t *testing.T) {
			up := &stubUpstream{blocked: make(chan struct{})}
			s := newTestServer(t, smallCluster, Config{Upstream: up.exchange})
			s.cfg.Drain = tt.drain
			s.serveOn(t, "127.0.3.1:0") // where no other test takes the port when it is closed
			replies := make(chan string, 2)
			for _, network := range []string{"udp", "tcp"} {
				go func() {
					c := dns.Client{Net: network, Timeout: time.Minute}
					reply, _, err := c.Exchange(parseQuery(network+".example. A", false), s.addr.String())
					switch {
					case err == nil:
						replies <- addresses(reply)
					case network == "tcp" && !tt.replies:
						replies <- "SERVFAIL" // the connection was closed before the reply
					default:
						replies <- err.Error()
					}
				}()
			}
			poll.Until(t, "both queries at the upstream server", func() bool { return up.queries.Load() >= 2 })
			s.stop()
			if tt.replies {
				close(up.blocked)
			}
			for range 2 {
				got := <-replies
				if tt.replies && strings.HasPrefix(got, "192.0.2.") {
					got = tt.want // the order of the two queries is not determined
				}
				if got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
			if err := <-s.result; err != nil {
				t.Error(err)
			}
			s.result <- nil // for the cleanup of serveOn
			l, err := net.ListenPacket("udp", s.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		})
	}
}

// TestRun_LameduckError: an error of a socket in the lameduck time ends it.
func TestRun_LameduckError(t *testing.T) {
	s := newServer(t, smallCluster, Config{Lameduck: time.Hour})
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, sockets) }()
	sockets.udp[0].Close()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want the error of the socket", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server waits for the end of the lameduck time")
	}
}

// TestRun_Flood: clients that never stop sending do not keep Run from returning after the drain
// time.
func TestRun_Flood(t *testing.T) {
	s := newTestServer(t, smallCluster, Config{})
	s.cfg.Drain = 10 * time.Millisecond
	s.serveOn(t, "127.0.0.1:0")
	packet := mustPack(t, parseQuery("web.default.svc.cluster.local. A", false))
	flood, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	for range 2 {
		c, err := net.Dial("udp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sending.Go(func() {
			for flood.Err() == nil {
				_, _ = c.Write(packet) // refused after the end
			}
		})
	}
	s.stop()
	select {
	case err := <-s.result:
		if err != nil {
			t.Error(err)
		}
		s.result <- nil // for the cleanup of serveOn
	case <-time.After(time.Minute):
		t.Error("Run does not return while packets arrive")
	}
}

// TestRun_QueuedPackets: queries in the kernel's queue when the context of Run ends are
// answered.
func TestRun_QueuedPackets(t *testing.T) {
	const queries = 200 // more than one batch
	s := newServer(t, benchCluster(1), Config{})
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("udp", sockets.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	packet := mustPack(t, new(dns.Msg).SetQuestion("only-4.payments.svc.cluster.local.", dns.TypeA))
	for range queries {
		if _, err := client.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx, sockets); err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(time.Minute))
	for i := range queries {
		if _, err := client.Read(make([]byte, maxUDP)); err != nil {
			t.Fatalf("got %d replies, want %d: %v", i, queries, err)
		}
	}
}

// TestResolve_ReturnedQuery: a query that the server itself sent is refused, also for a name
// of the cluster. All others are answered.
func TestResolve_ReturnedQuery(t *testing.T) {
	up := &stubUpstream{}
	s := newTestServer(t, smallCluster, Config{Upstream: up.exchange})
	s.cfg.DetectProbe = func(q dns.Question) bool { return q.Qtype == dns.TypeHINFO }
	s.serveOn(t, "127.0.0.1:0")
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for question, want := range map[string]string{"probe.example. HINFO": "REFUSED",
			"web.default.svc.cluster.local. HINFO": "REFUSED", "www.example. A": "192.0.2.1"} {
			if got := addresses(exchange(question)); got != want {
				t.Errorf("%s: got %s, want %s", question, got, want)
			}
		}
	})
	if n := up.queries.Load(); n != 1 {
		t.Errorf("upstream received %d queries, want 1", n)
	}
}

// TestNew_NoDomain: the error for a missing cluster domain names the field.
func TestNew_NoDomain(t *testing.T) {
	c, err := cache.New(cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, domain := range []fqdn.Name{"", fqdn.Root} {
		if _, err := New(Config{Cache: c, Domain: domain}); err == nil || !strings.Contains(err.Error(), "Config.Domain") {
			t.Errorf("%q: got %v, want an error about Config.Domain", domain, err)
		}
	}
}
