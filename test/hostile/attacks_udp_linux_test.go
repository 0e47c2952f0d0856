// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// attack is a hostile client. Its name is in the table of results.md.
type attack struct {
	name string
	rate string                           // as in the table
	run  func(context.Context, *attacker) // until the context ends
	lead time.Duration                    // of the attack before the well-behaved client begins
}

// leadTime is enough for most attacks to begin.
const leadTime = 500 * time.Millisecond

// saturating returns the attack with a lead of one and a half times that for which a server waits for a reply:
// the slots of the attacker are in use when the well-behaved client begins. After 4 s, those that the
// attacker took first become free all at once.
func (a attack) saturating() attack {
	a.lead = 6 * time.Second
	return a
}

// attacker runs an attack on a server, at pace times the rate of the attack.
type attacker struct {
	t    *testing.T
	to   netip.AddrPort
	http string // of the metrics
	pace float64
	sent atomic.Int64
}

// addr returns the address of hostile client i, which is not that of the well-behaved one.
func addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 77, byte(1 + i/200), byte(1 + i%200)})
}

// searchOption is the EDNS0 option code of the search lists.
const searchOption = 65313

// randomLabel returns a new label.
func randomLabel() string { return fmt.Sprintf("h%016x", rand.Uint64()) }

// flood returns an attack that sends datagrams at a rate from a number of clients, and does not
// read replies. A late datagram is not made up for.
func flood(name string, perSecond, clients int, packet func() []byte) attack {
	rate := fmt.Sprintf("%d/s", perSecond)
	if clients > 1 {
		rate += fmt.Sprintf(" from %d clients", clients)
	}
	run := func(ctx context.Context, a *attacker) { sendFrom(ctx, a, addrs(clients), perSecond, packet) }
	return attack{name, rate, run, leadTime}
}

// sendFrom sends packets from addresses in turn, until the context ends.
func sendFrom(ctx context.Context, a *attacker, from []netip.Addr, perSecond int, packet func() []byte) {
	var conns []*net.UDPConn
	for _, source := range from {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), net.UDPAddrFromAddrPort(a.to))
		if err != nil {
			a.t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.SetReadBuffer(4 << 10)
		conns = append(conns, conn)
	}
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	for sent, due := 0, 0.0; ctx.Err() == nil; {
		<-tick.C
		for due += a.pace * float64(perSecond) / ticks; float64(sent) < due; sent++ {
			_, _ = conns[sent%len(conns)].Write(packet())
			a.sent.Add(1)
		}
	}
}

// query returns packets of queries for the names that f returns.
func query(qtype uint16, f func() string, options ...func(*dns.Msg)) func() []byte {
	return func() []byte {
		m := new(dns.Msg).SetQuestion(f(), qtype)
		for _, option := range options {
			option(m)
		}
		return pack(m)
	}
}

// repeat returns copies of a packet with other IDs. To pack 480 options takes more time than a server
// needs to answer, and 44 kB of garbage: the collector of the test would compete with the server.
func repeat(packet []byte) func() []byte {
	return func() []byte {
		next := bytes.Clone(packet)
		binary.BigEndian.PutUint16(next, uint16(rand.Uint32()))
		return next
	}
}

// random returns new names in a domain.
func random(domain string) func() string {
	return func() string { return randomLabel() + "." + domain }
}

func always(name string) func() string { return func() string { return name } }

func edns(m *dns.Msg) { m.SetEdns0(1232, false) }

// withSearchList adds a search list with 32 domains of the silent domain.
func withSearchList(m *dns.Msg) {
	list := []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	for i := range 29 {
		list = append(list, fmt.Sprintf("%02d.silent.example", i))
	}
	m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: searchOption, Data: []byte(strings.Join(list, ","))}}
}

// withOptions adds as many options as fit into 4,000 octets.
func withOptions(m *dns.Msg) {
	opt := m.SetEdns0(65535, true).IsEdns0()
	for i := range 480 {
		opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: uint16(65001 + i%500), Data: []byte{1, 2, 3, 4}})
	}
}

func withoutRD(m *dns.Msg) { m.RecursionDesired = false }

// reverseOfPublic returns reverse names of random public addresses.
func reverseOfPublic() string {
	return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa.", rand.IntN(256), rand.IntN(256), rand.IntN(256), 11+rand.IntN(80))
}

// randomCase returns names in random case: half of them cached, half of the cluster.
func randomCase() string {
	name := []byte(fmt.Sprintf("cached-%d.example.", rand.IntN(warmNames)))
	if rand.IntN(2) == 0 {
		name = []byte(fmt.Sprintf("web-%d.default.svc.%s", rand.IntN(services), zone))
	}
	for i, c := range name {
		if 'a' <= c && c <= 'z' && rand.IntN(2) == 0 {
			name[i] = c - 'a' + 'A'
		}
	}
	return string(name)
}

// longName returns new names of 255 octets: half of them outside the cluster, half of them below the
// autopath suffix.
func longName() string {
	domain := []string{"example.", "search.default.cluster.local.ap.k8s.io."}[rand.IntN(2)]
	name := randomLabel() + "."
	for len(name)+2+len(domain) <= 254 {
		name += "a."
	}
	return name + domain
}

// junk returns random octets, half of them after the header of a query.
func junk() []byte {
	b := make([]byte, rand.IntN(600))
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	if len(b) > 12 && rand.IntN(2) == 0 {
		copy(b[2:], []byte{1, 0, 0, 1, 0, 0, 0, 0, 0, byte(rand.IntN(3))})
	}
	return b
}

// fakeReply returns replies, with a poisoned address, to queries that the server may have sent.
func fakeReply() []byte {
	m := new(dns.Msg).SetQuestion(fmt.Sprintf("cached-%d.example.", rand.IntN(warmNames)), dns.TypeA)
	m.Response, m.Answer = true, []dns.RR{&dns.A{Hdr: header(m.Question[0].Name, dns.TypeA, 86400), A: net.IPv4(203, 0, 113, 66)}}
	return pack(m)
}

// refused returns queries that no server answers: transfers, ANY, updates, notifications, and
// other classes.
func refused() []byte {
	m := new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA)
	switch rand.IntN(6) {
	case 0:
		m.SetAxfr("cluster.local.")
	case 1:
		m.SetIxfr("cluster.local.", 1, "ns.", "admin.")
	case 2:
		m.Question[0].Qtype = dns.TypeANY
	case 3:
		m.SetUpdate("cluster.local.")
		m.Insert([]dns.RR{&dns.A{Hdr: header("web-1.default.svc.cluster.local.", dns.TypeA, 60), A: net.IPv4(203, 0, 113, 66)}})
	case 4:
		m.SetNotify("cluster.local.")
	default:
		m.Question[0].Qclass = dns.ClassCHAOS
	}
	return pack(m)
}

// brokenTypes are types for whose records the upstream server sends malformed data.
var brokenTypes = []uint16{dns.TypeA, dns.TypeA, dns.TypeEUI48, dns.TypeHTTPS, dns.TypeNSEC}

func brokenQuery() []byte {
	return query(brokenTypes[rand.IntN(len(brokenTypes))], random(brokenDomain), edns)()
}

// floods are the attacks with datagrams.
var floods = []attack{
	flood("search lists by option, 32 domains", 200, 1,
		query(dns.TypeA, func() string { return randomLabel() + "." }, withSearchList)).saturating(),
	flood("search lists by name", 500, 1, query(dns.TypeA, random("search.default.cluster.local.ap.k8s.io."), edns)).saturating(),
	flood("search lists of silent domains, many clients", 2000, 100,
		query(dns.TypeA, random(silentDomain+"search.default.cluster.local.ap.k8s.io."), edns)).saturating(),
	flood("names below the autopath suffix", 3000, 1, query(dns.TypeA, random("ap.k8s.io."), edns)),
	flood("silent upstream domain", 2000, 1, askSilent).saturating(),
	flood("silent upstream domain, many clients", 2000, 8, askSilent).saturating(),
	flood("silent upstream domain, most clients", 2000, 200, askSilent).saturating(),
	flood("silent upstream domain, one query of each client", 4000, 4000, askSilent).saturating(),
	flood("slow upstream domain", 2000, 1, query(dns.TypeA, random(slowDomain))),
	flood("truncated upstream replies, silent over TCP", 500, 1, query(dns.TypeA, random(truncatedDomain))),
	flood("broken upstream replies", 500, 1, brokenQuery),
	flood("upstream replies of 4,000 records", 100, 1, query(dns.TypeA, random(manyDomain))).saturating(),
	flood("random types", 3000, 1, func() []byte { return query(uint16(rand.IntN(65536)), randomCase)() }),
	flood("long names", 1000, 1, query(dns.TypeA, longName, edns)).saturating(),
	flood("absent upstream names", 2000, 1, query(dns.TypeA, random(absentDomain))),
	flood("new upstream names", 2000, 1, query(dns.TypeA, random("bust.example."))),
	flood("public reverse names", 1000, 1, query(dns.TypePTR, reverseOfPublic)).saturating(),
	flood("absent cluster names", 5000, 1, query(dns.TypeA, random("default.svc.cluster.local."))),
	flood("names of pods", 5000, 1, query(dns.TypeA, func() string {
		return fmt.Sprintf("10-%d-%d-%d.default.pod.cluster.local.", rand.IntN(256), rand.IntN(256), rand.IntN(256))
	})),
	flood("names of endpoints", 3000, 1, query(dns.TypeA, func() string {
		return strings.ReplaceAll(endpointAddress("large", rand.IntN(largeEndpoints)), ".", "-") + ".large.default.svc.cluster.local."
	})),
	flood("addresses of 5,000 endpoints", 3000, 1, query(dns.TypeA, always("large.default.svc.cluster.local."), edns)),
	flood("SRV of 1,000 endpoints and 5 ports", 3000, 1, query(dns.TypeSRV, always("many.default.svc.cluster.local."), edns)),
	flood("alias loops and chains", 3000, 1, query(dns.TypeA, func() string {
		return []string{"loop", "chain-12", "chain-9"}[rand.IntN(3)] + ".default.svc.cluster.local."
	})),
	flood("an alias to the silent domain", 1000, 1, query(dns.TypeA, always("outside.default.svc.cluster.local."))),
	flood("names in random case", 3000, 1, query(dns.TypeA, randomCase)),
	flood("queries without RD", 3000, 1, query(dns.TypeA, random("silent.example."), withoutRD)),
	flood("480 EDNS0 options", 2000, 1, repeat(query(dns.TypeA, always("web-1.default.svc.cluster.local."), withOptions)())),
	flood("transfers, ANY, updates", 5000, 1, refused),
	flood("junk", 5000, 1, junk),
	flood("replies", 5000, 1, fakeReply),
}
