// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// apply reads objects into a zone, one a line:
//
//	namespace NAME
//	service NS/NAME ADDR... PORT:PROTOCOL:NUMBER... [publish] [external=NAME]
//	slice NS/SERVICE ADDR[=HOSTNAME][!]... PORT:PROTOCOL:NUMBER...
//	pod NS/NAME ADDR...
//	loaded
//
// where ! is an endpoint that is not ready, and an unnamed port begins with ":".
func apply(t testing.TB, z *zone.Zone, text string) {
	t.Helper()
	z.Update(1, func(e *zone.Edit) {
		for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] == "#" {
				continue
			}
			if words[0] == "loaded" {
				e.SetLoaded()
				continue
			}
			ns, name, _ := strings.Cut(words[1], "/")
			switch words[0] {
			case "namespace":
				e.PutNamespace(ns)
			case "service":
				e.PutService(service(ns, name, words[2:]))
			case "slice":
				e.PutEndpointSlice(slice(ns, name, fmt.Sprint(name, "-", i), words[2:]))
			case "pod":
				p := zone.Pod{Namespace: ns, Name: name}
				for _, w := range words[2:] {
					p.Addrs = append(p.Addrs, netip.MustParseAddr(w))
				}
				e.PutPod(p)
			default:
				t.Fatalf("line %q is not understood", line)
			}
		}
	})
}

func service(ns, name string, words []string) zone.Service {
	s := zone.Service{Namespace: ns, Name: name}
	for _, w := range words {
		if addr, err := netip.ParseAddr(w); err == nil {
			s.ClusterIPs = append(s.ClusterIPs, addr)
		} else if target, ok := strings.CutPrefix(w, "external="); ok {
			s.ExternalName = target
		} else if w == "publish" {
			s.PublishNotReady = true
		} else {
			s.Ports = append(s.Ports, port(w))
		}
	}
	return s
}

func slice(ns, svc, name string, words []string) zone.EndpointSlice {
	s := zone.EndpointSlice{Namespace: ns, Name: name, Service: svc}
	for _, w := range words {
		w, unready := strings.CutSuffix(w, "!")
		text, hostname, _ := strings.Cut(w, "=")
		if addr, err := netip.ParseAddr(text); err == nil {
			s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: addr, Hostname: hostname, Ready: !unready})
		} else {
			s.Ports = append(s.Ports, port(w))
		}
	}
	return s
}

func port(word string) zone.Port {
	parts := strings.Split(word, ":")
	n, err := strconv.ParseUint(parts[len(parts)-1], 10, 16)
	if len(parts) != 3 || err != nil {
		panic("no port: " + word)
	}
	return zone.Port{Name: parts[0], Protocol: parts[1], Number: uint16(n)}
}

// knownNames are the records of an upstream server.
type knownNames []dns.RR

func parseRecords(t testing.TB, text string) knownNames {
	t.Helper()
	var list knownNames
	for p := dns.NewZoneParser(strings.NewReader(text), ".", ""); ; {
		rr, ok := p.Next()
		if !ok {
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			return list
		}
		list = append(list, rr)
	}
}

// exchange answers as an upstream server does: with all records of the name, their
// CNAME's targets included, and NXDOMAIN with an SOA for a name it does not know.
func (k knownNames) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	asked := q.Question[0]
	if strings.HasSuffix(asked.Name, "dead.example.") {
		return nil, errors.New("nobody is there")
	}
	known := false
	for owner := asked.Name; owner != ""; {
		next := ""
		for _, rr := range k {
			h := rr.Header()
			if !strings.EqualFold(h.Name, owner) {
				continue
			}
			known = true
			if cname, ok := rr.(*dns.CNAME); ok && asked.Qtype != dns.TypeCNAME {
				next = cname.Target
			} else if h.Rrtype != asked.Qtype {
				continue
			}
			m.Answer = append(m.Answer, rr)
		}
		owner = next
	}
	if !known {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		soa, err := dns.NewRR("example. 60 IN SOA ns.example. admin.example. 1 2 3 4 60")
		if err != nil {
			return nil, err
		}
		m.Ns = []dns.RR{soa}
	}
	return m, nil
}

// reverseRanges are those of the test clusters.
var reverseRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/32")}

// testServer is a server on a port of the loopback interface.
type testServer struct {
	*Server
	zone    *zone.Zone
	cache   *cache.Cache
	counted *prometheus.Registry
	addr    netip.AddrPort
	stop    context.CancelFunc
	ended   chan error
}

// newTestServer has the zone cluster.local with what change makes of its Config, and a
// server of it that has no sockets.
func newTestServer(t testing.TB, change func(*zone.Config), cluster string, upstream Exchange, stubs ...Stub) *testServer {
	t.Helper()
	return configured(t, change, cluster, Config{Upstream: upstream, Stubs: stubs})
}

// configured is newTestServer with what else is to be set.
func configured(t testing.TB, change func(*zone.Config), cluster string, config Config) *testServer {
	t.Helper()
	s := &testServer{counted: prometheus.NewRegistry()}
	z := zone.Config{
		Domain: fqdn.Join(fqdn.Root, "cluster", "local"), Pods: zone.PodsInsecure,
		Local: []netip.Addr{netip.MustParseAddr("10.244.9.9")}, Reverse: reverseRanges,
	}
	change(&z)
	var err error
	if s.zone, err = zone.New(z); err != nil {
		t.Fatal(err)
	}
	apply(t, s.zone, cluster)
	if s.cache, err = cache.New(cache.Config{}); err != nil {
		t.Fatal(err)
	}
	config.Zone, config.Domain, config.TTL, config.Cache, config.Drain = s.zone, z.Domain, 5, s.cache, time.Second
	if config.Register == nil {
		config.Register = s.counted
	}
	if s.Server, err = New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer returns a server of a cluster, without sockets.
func newServer(t testing.TB, cluster string, config Config) *Server {
	t.Helper()
	return configured(t, noChange, cluster, config).Server
}

func noChange(*zone.Config) {}

// serve starts a server for the test's time.
func serve(t testing.TB, cluster string, upstream Exchange, stubs ...Stub) *testServer {
	t.Helper()
	return serveConfig(t, cluster, Config{Upstream: upstream, Stubs: stubs})
}

// serveConfig is serve with what else is to be set.
func serveConfig(t testing.TB, cluster string, config Config) *testServer {
	t.Helper()
	s := configured(t, noChange, cluster, config)
	s.run(t, "127.0.0.1:0")
	return s
}

// run serves at an address for the test's time.
func (s *testServer) run(t testing.TB, listen string) {
	t.Helper()
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(listen)})
	if err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan error, 1)
	s.addr = sockets.Addrs()[0]
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- s.Run(ctx, sockets) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		close(s.ended)
	})
}

// exchange asks the server.
func (s *testServer) exchange(t testing.TB, network string, q *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 5 * time.Second}
	reply, _, err := c.Exchange(q, s.addr.String())
	if err != nil {
		t.Fatalf("asking for %s over %s: %v", q.Question[0].Name, network, err)
	}
	if !slices.Equal(reply.Question, q.Question) {
		t.Errorf("asked %v, the reply's question is %v", q.Question, reply.Question)
	}
	return reply
}

// raw sends octets over UDP and returns the reply's; none within the time is nil.
func (s *testServer) raw(t testing.TB, packet []byte, wait time.Duration) []byte {
	t.Helper()
	c, err := net.Dial("udp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(wait))
	var buf [dns.MaxMsgSize]byte
	n, err := c.Read(buf[:])
	if err != nil {
		return nil
	}
	return buf[:n]
}

// text is a reply as dig would show it, without what differs each time: the order
// of addresses.
func text(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.AuthenticatedData, "ad"}, {expanded(m), "expanded"}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteString("\n")
	section := func(prefix string, records []dns.RR) {
		var lines []string
		for _, rr := range records {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
		if len(lines) > 1 && !strings.Contains(lines[0], " CNAME ") {
			slices.Sort(lines)
		}
		for _, line := range lines {
			b.WriteString(prefix + line + "\n")
		}
	}
	section("", m.Answer)
	section("authority: ", m.Ns)
	section("additional: ", m.Extra)
	return b.String()
}
