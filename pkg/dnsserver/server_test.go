// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
			s.expectFree(t)
			l := must.Get(net.ListenPacket("udp", s.addr.String()))(t)
			l.Close()
		})
	}
}

// TestRun_LameduckError: an error of a socket in the lameduck time ends it.
func TestRun_LameduckError(t *testing.T) {
	s := newServer(t, smallCluster, Config{Lameduck: time.Hour})
	sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}))(t)
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
		c := must.Get(net.Dial("udp", s.addr.String()))(t)
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

// TestHandle_NeverBlocks: handle answers from the zone and the cache at once. For all other
// queries it returns a function that waits, and does not query a server itself. Either way a
// query is counted once.
func TestHandle_NeverBlocks(t *testing.T) {
	var forwarded atomic.Int32
	s := newTestServer(t, shopCluster+"\nservice shop/outside external=www.example", Config{
		Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}},
		Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			forwarded.Add(1)
			return nil, context.Canceled
		},
	})
	nxdomain := new(dns.Msg).SetRcode(newQuery("www.corp.example.", dns.TypeA), dns.RcodeNameError)
	nxdomain.Ns = []dns.RR{&dns.SOA{Hdr: header("corp.example.", dns.TypeSOA, 60),
		Ns: "ns.corp.example.", Mbox: "a.corp.example.", Minttl: 60}}
	for _, tt := range []struct {
		name    string
		query   *dns.Msg
		noWait  bool
		lookups int // in the cache
	}{
		{"a Service", newQuery("web.shop.svc.cluster.local.", dns.TypeSRV), true, 0},
		{"a Service that does not exist", newQuery("none.shop.svc.cluster.local.", dns.TypeMX), true, 0},
		{"a search list with a name of the zone, by name", newQuery(autopathName("web", "shop"), dns.TypeA), true, 0},
		{"the same list as option", newQuery("web.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), true, 0},
		{"a rejected query", newQuery("web.shop.svc.cluster.local.", dns.TypeAXFR), true, 0},
		{"a cached name", newQuery("www.corp.example.", dns.TypeA), true, 1},
		{"an upstream name", newQuery("www.example.", dns.TypeA), false, 1},
		{"an alias of an upstream name", newQuery("outside.shop.svc.cluster.local.", dns.TypeA), false, 1},
		{"a search list with an upstream name, by name", newQuery(autopathName("www.example", "shop"), dns.TypeA), false, 2},
		{"the same list as option",
			newQuery("www.example.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), false, 1},
		{"a search list with an alias", newQuery(autopathName("outside", "shop"), dns.TypeA), false, 1},
		{"a search list with a candidate that is cached as NXDOMAIN", newQuery(autopathName("www", "shop"), dns.TypeA), false, 2},
		{"a malformed search list", newQuery("other.example.", dns.TypeA, "a b"), false, 1},
	} {
		packet := mustPack(t, tt.query)
		current := cache.PutOptions{Generation: s.cache.Clear()}
		key := cache.Question{Name: []byte(mustName(t, "www.corp.example")), Type: dns.TypeA, Class: dns.ClassINET}
		if _, cached := s.cache.Put(key, nxdomain, time.Now(), current); !cached {
			t.Fatal("the NXDOMAIN is not cached")
		}
		before, queries, lookups := forwarded.Load(), s.counterSum(t, "dnsconfigurer_dns_queries_total"),
			s.counterSum(t, "dnsconfigurer_dns_cache_lookups_total")
		q := &query{via: overUDP, client: podAddr, received: time.Now()}
		r, wait := s.handle(t.Context(), q, packet, nil)
		if (wait == nil) != tt.noWait || (r.wire != nil) != tt.noWait || forwarded.Load() != before {
			t.Errorf("%s: got the reply %x, wait function %t, query to upstream %t", tt.name, r.wire,
				wait != nil, forwarded.Load() != before)
		}
		if wait != nil {
			r = wait(t.Context())
			s.running.Wait()
		}
		s.observeReply(q, r)
		if n := s.counterSum(t, "dnsconfigurer_dns_queries_total") - queries; n != 1 {
			t.Errorf("%s: counted %d times, want 1", tt.name, n)
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_cache_lookups_total") - lookups; n != tt.lookups {
			t.Errorf("%s: got %d cache lookups, want %d", tt.name, n, tt.lookups)
		}
	}
}

// seedQueries returns queries with all kinds of options, and two with malformed options.
func seedQueries(f *testing.F) [][]byte {
	f.Helper()
	var list [][]byte
	for _, options := range [][]dns.EDNS0{
		nil,
		{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}},
		{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)},
			&dns.EDNS0_PADDING{Padding: make([]byte, 9)}},
		{&dns.EDNS0_LOCAL{Code: 65313, Data: []byte("default.svc.cluster.local,svc.cluster.local")},
			&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}},
	} {
		for _, question := range []string{"web.default.svc.cluster.local. A",
			"ext.default.svc.cluster.local. AAAA", "_http._tcp.web.default.svc.cluster.local. SRV",
			"7.0.96.10.in-addr.arpa. PTR", "WWW.example. A", "www.example. ANY"} {
			q := parseQuery(question, options != nil)
			if options != nil {
				q.IsEdns0().Option = options
			}
			packet := mustPack(f, q)
			list = append(list, packet)
		}
	}
	malformed := bytes.Clone(list[len(list)-1])
	binary.BigEndian.PutUint16(malformed[len(malformed)-47:], 0xFFFF) // an option's length
	return append(list, malformed, malformed[:len(malformed)-1])
}

// errInvalid is the error of an upstream server whose reply is invalid.
var errInvalid = errors.New("invalid reply")

// FuzzHandle: with any packets from clients and upstream servers handle does not panic, and a
// reply is a complete message, to its query, and no longer than the client accepts.
func FuzzHandle(f *testing.F) {
	for _, packet := range seedQueries(f) {
		q := new(dns.Msg)
		if q.Unpack(packet) != nil {
			f.Add(packet, packet, true)
			continue
		}
		reply := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		reply.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: "a.", Mbox: "b."}}
		reply.Extra = []dns.RR{&dns.TSIG{Hdr: header("key.", dns.TypeTSIG, 0), Algorithm: dns.HmacSHA256},
			&dns.OPT{Hdr: header(".", dns.TypeOPT, 1<<31)}}
		denial := mustPack(f, reply)
		f.Add(packet, denial, false)
	}
	f.Fuzz(func(t *testing.T, packet, upstream []byte, overStream bool) {
		s := newTestServer(t, smallCluster+"\nservice default/ext external=www.example",
			Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
				m := new(dns.Msg)
				empty := func(r dns.RR) bool { return r.Header().Rdlength == 0 }
				if m.Unpack(upstream) != nil || slices.ContainsFunc(slices.Concat(m.Answer, m.Ns, m.Extra), empty) {
					return nil, errInvalid // as in pkg/dnsserver/upstream
				}
				if again, err := m.Pack(); err != nil || new(dns.Msg).Unpack(again) != nil {
					return nil, errInvalid
				}
				m.Question = q.Question // pkg/dnsserver/upstream checks it
				return m, nil
			}})
		via := overUDP
		if overStream {
			via = overTCP
		}
		for range 2 { // from upstream, and from the cache
			reply := handlePacket(t.Context(), s.Server, packet, via, podAddr)
			if reply == nil {
				continue
			}
			m := new(dns.Msg)
			if err := m.Unpack(reply); err != nil && len(reply) > headerLen {
				t.Fatalf("cannot unpack the reply %x: %v", reply, err)
			}
			if !bytes.Equal(reply[:2], packet[:2]) || reply[2]&0x80 == 0 {
				t.Fatalf("%x is not a reply to %x", reply, packet)
			}
			q := &query{via: via}
			if q.parse(packet); q.rejectCode != dns.RcodeSuccess {
				continue
			}
			if len(reply) > q.maxReply || !bytes.Equal(reply[headerLen:headerLen+len(q.question)], q.question) ||
				len(m.Question) != 1 || (m.IsEdns0() != nil) != q.edns {
				t.Fatalf("the reply has %d octets, the client accepts %d: %v", len(reply), q.maxReply, m)
			}
		}
		if s.counterSum(t, "dnsconfigurer_dns_panics_total") > 0 {
			t.Fatal("panic")
		}
	})
}

// FuzzReadMessage: any octets in pieces of any size are read as complete messages, until the
// connection ends.
func FuzzReadMessage(f *testing.F) {
	query := frame([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07cluster\x05local\x00\x00\x06\x00\x01"))
	f.Add(query, byte(1))
	f.Add(append(query, query...), byte(7))
	f.Add(query[:len(query)-1], byte(255))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0}, byte(2))
	f.Add([]byte{0x10, 0x00, 1}, byte(3))
	f.Add([]byte{0x10, 0x01, 1}, byte(3))
	f.Add([]byte{0xFF, 0xFF}, byte(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece byte) {
		s := newTestServer(t, smallCluster, Config{})
		server, client := net.Pipe()
		go func() {
			defer client.Close()
			for rest := stream; len(rest) > 0; {
				n := min(int(piece)+1, len(rest))
				if _, err := client.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		offset := 0
		for {
			packet, err := readMessage(server)
			if err != nil {
				break
			}
			if len(packet) > maxQuery || !bytes.Equal(frame(packet), stream[offset:offset+2+len(packet)]) {
				t.Fatalf("%x at %d of %x", packet, offset, stream)
			}
			offset += 2 + len(packet)
			handlePacket(t.Context(), s.Server, packet, overTCP, podAddr)
		}
		server.Close()
		if n := s.counterSum(t, "dnsconfigurer_dns_panics_total"); n > 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
