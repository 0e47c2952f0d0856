// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// testServer is a server of a test cluster, with or without sockets.
type testServer struct {
	*Server
	cache    *cache.Cache
	registry *prometheus.Registry

	// Set by serveOn.
	sockets *Sockets
	addr    netip.AddrPort
	stop    context.CancelFunc
	result  chan error // of Run
}

// newTestServer returns a server without sockets, of the zone cluster.local with the objects
// of the cluster. config needs only the fields that the test depends on.
func newTestServer(t testing.TB, cluster string, config Config) *testServer {
	t.Helper()
	if config.Zone == nil {
		config.Zone = newZone(t, reverseRanges, cluster)
	}
	return newCachingServer(t, config)
}

// newCachingServer returns a server without sockets that has a cache and metrics.
func newCachingServer(t testing.TB, config Config) *testServer {
	t.Helper()
	s := &testServer{registry: prometheus.NewRegistry(), cache: cache.New(cache.Config{})}
	if a := &config.Autopath; a.Allowed == nil && a.NodeCaches == (Service{}) { // unless the test is about it
		a.Allowed = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	}
	config.Domain, config.TTL, config.Cache, config.Drain = clusterDomain, 5, s.cache, time.Second
	if config.Register == nil {
		config.Register = s.registry
	}
	var err error
	if s.Server, err = New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer is newTestServer for tests that need the Server only.
func newServer(t testing.TB, cluster string, config Config) *Server {
	t.Helper()
	return newTestServer(t, cluster, config).Server
}

// startServer is newTestServer with sockets at a port of the loopback interface, until the
// test ends.
func startServer(t testing.TB, cluster string, config Config) *testServer {
	t.Helper()
	s := newTestServer(t, cluster, config)
	s.serveOn(t, "127.0.0.1:0")
	return s
}

// serveOn runs the server at an address until the test ends.
func (s *testServer) serveOn(t testing.TB, addr string) {
	t.Helper()
	sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(addr)}))(t)
	s.serve(t, sockets)
}

// serve runs the server with sockets until the test ends.
func (s *testServer) serve(t testing.TB, sockets *Sockets) {
	t.Helper()
	s.result = make(chan error, 1)
	s.sockets, s.addr = sockets, sockets.Addrs()[0]
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.result <- s.Run(ctx, sockets) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.result; err != nil {
			t.Error(err)
		}
		close(s.result)
	})
}

// exchange sends a query over udp or tcp and returns the reply.
func (s *testServer) exchange(t testing.TB, network string, q *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: time.Minute}
	reply, _, err := c.Exchange(q, s.addr.String())
	if err != nil {
		t.Fatalf("query for %s over %s: %v", q.Question[0].Name, network, err)
	}
	if !slices.Equal(reply.Question, q.Question) {
		t.Errorf("question of the reply: got %v, want %v", reply.Question, q.Question)
	}
	return reply
}

// exchangePacket sends octets over UDP and returns those of the reply, or nil if none arrives
// within timeout.
func (s *testServer) exchangePacket(t testing.TB, packet []byte, timeout time.Duration) []byte {
	t.Helper()
	c := must.Get(net.Dial("udp", s.addr.String()))(t)
	defer c.Close()
	must.Get(c.Write(packet))(t)
	c.SetReadDeadline(time.Now().Add(timeout))
	var buf [dns.MaxMsgSize]byte
	n, err := c.Read(buf[:])
	if err != nil {
		return nil
	}
	return buf[:n]
}

// forEachTransport runs f as subtest for UDP and TCP, each with and without EDNS0. The
// exchange that f gets sends the query of parseQuery.
func (s *testServer) forEachTransport(t *testing.T, f func(t *testing.T, edns bool, exchange func(question string) *dns.Msg)) {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		for _, edns := range []bool{false, true} {
			name := network
			if edns {
				name += " EDNS0"
			}
			t.Run(name, func(t *testing.T) {
				f(t, edns, func(question string) *dns.Msg { return s.exchange(t, network, parseQuery(question, edns)) })
			})
		}
	}
}

// counterSum returns the sum of a metric's counters or gauges with the labels, each as name=value.
func (s *testServer) counterSum(t testing.TB, metric string, labels ...string) int {
	t.Helper()
	families := must.Get(s.registry.Gather())(t)
	sum := 0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var actual []string
			for _, l := range m.GetLabel() {
				actual = append(actual, l.GetName()+"="+l.GetValue())
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(actual, l) }) {
				sum += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return sum
}

// podAddr is the address of the client, unless a test has another one.
var podAddr = netip.MustParseAddr("10.244.1.7")

// exchangeDirect returns the reply to a query of a pod over UDP, without a socket.
func exchangeDirect(t testing.TB, s *Server, q *dns.Msg) *dns.Msg {
	t.Helper()
	return exchangeVia(t, s, overUDP, podAddr, q)
}

// exchangeVia returns the reply to a query of a client, without a socket.
func exchangeVia(t testing.TB, s *Server, via transport, client netip.Addr, q *dns.Msg) *dns.Msg {
	t.Helper()
	reply := new(dns.Msg)
	must.Succeed(t, reply.Unpack(handlePacket(t.Context(), s, mustPack(t, q), via, client)))
	return reply
}

// handlePacket returns the reply to a packet, after waiting for other servers if necessary.
// It counts the reply as the transports do.
func handlePacket(ctx context.Context, s *Server, packet []byte, via transport, client netip.Addr) []byte {
	q := &query{via: via, client: client, received: time.Now()}
	r, wait := s.handle(ctx, q, packet, nil)
	if wait != nil {
		r = wait(ctx)
	}
	s.observeReply(q, r)
	return r.wire
}

// autopathName returns the autopath name of a name that a pod of the namespace looks up.
func autopathName(name, namespace string) string {
	return strings.TrimSuffix(name, ".") + ".search." + namespace + ".cluster.local.ap.k8s.io."
}
