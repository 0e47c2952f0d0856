// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// Domains of the upstream server. It answers a query for any other name with the address of addressOf: at
// once, or after the time of delayOf.
const (
	silentDomain    = "silent.example." // no reply; and no reply for public reverse names
	slowDomain      = "1500ms.example." // a reply after 1.5 s
	absentDomain    = "absent.example." // NXDOMAIN
	hostDomain      = "internal."       // NXDOMAIN: the search domains of nodes
	brokenDomain    = "broken.example." // messages that are no replies, and malformed records
	truncatedDomain = "cut.example."    // TC over UDP, no reply over TCP
	bigName         = "big.example."    // TXT records of 62 kB
	manyDomain      = "many.example."   // 4,000 addresses, over TCP
)

// answer is the Handler of the upstream server.
func answer(network string, q *dns.Msg) []dnstest.Message {
	name := strings.ToLower(q.Question[0].Name)
	m := new(dns.Msg).SetReply(q)
	in := func(domain string) bool { return dns.IsSubDomain(domain, name) }
	switch {
	case in(silentDomain), in("arpa."):
		return nil
	case in(absentDomain):
		deny(m, absentDomain)
	case in(hostDomain):
		deny(m, hostDomain)
	case in(truncatedDomain):
		if network == "tcp" {
			return nil
		}
		m.Truncated = true
	case in(brokenDomain):
		return broken(m)
	case in(bigName):
		if network == "udp" {
			m.Truncated = true
			break
		}
		for i := range 240 {
			text := fmt.Sprintf("%03d%s", i, strings.Repeat("x", 240))
			m.Answer = append(m.Answer, &dns.TXT{Hdr: header(q.Question[0].Name, dns.TypeTXT, 3600), Txt: []string{text}})
		}
		m.Compress = true
	case in(manyDomain):
		if network == "udp" {
			m.Truncated = true
			break
		}
		for i := range 4000 {
			m.Answer = append(m.Answer, &dns.A{Hdr: header(q.Question[0].Name, dns.TypeA, 3600), A: net.IPv4(198, 18, byte(i>>8), byte(i))})
		}
		m.Compress = true
	case strings.HasPrefix(name, "cached-"):
		withAddress(m, 3600)
	default:
		withAddress(m, 60)
	}
	return []dnstest.Message{{Wire: pack(m), After: delayOf(name)}}
}

// delayOf returns the time until a name is answered: a label of it, such as 20ms.
func delayOf(name string) time.Duration {
	for label := range strings.SplitSeq(name, ".") {
		if d, err := time.ParseDuration(label); err == nil && strings.HasSuffix(label, "ms") {
			return d
		}
	}
	return 0
}

// deny makes m the reply for a name that does not exist in zone.
func deny(m *dns.Msg, zone string) {
	m.Rcode = dns.RcodeNameError
	m.Ns = []dns.RR{&dns.SOA{Hdr: header(zone, dns.TypeSOA, 60), Ns: "ns.example.", Mbox: "admin.example.", Minttl: 60}}
}

// withAddress adds the address of the name to the reply m.
func withAddress(m *dns.Msg, ttl uint32) *dns.Msg {
	switch q := m.Question[0]; q.Qtype {
	case dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: header(q.Name, dns.TypeA, ttl), A: net.ParseIP(addressOf(q.Name))}}
	case dns.TypeAAAA:
		m.Answer = []dns.RR{&dns.AAAA{Hdr: header(q.Name, dns.TypeAAAA, ttl), AAAA: net.ParseIP(address6Of(q.Name))}}
	}
	return m
}

// addressOf returns the address of a name outside the cluster.
func addressOf(name string) string {
	h := hash(name)
	return fmt.Sprintf("198.18.%d.%d", h>>8&0xFF, h&0xFF)
}

// address6Of returns the IPv6 address of a name outside the cluster.
func address6Of(name string) string { return fmt.Sprintf("2001:db8::%x", hash(name)&0xFF|0x100) }

func hash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(strings.ToLower(name)))
	return h.Sum32()
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func pack(m *dns.Msg) []byte {
	wire, err := m.Pack()
	if err != nil {
		panic(fmt.Sprintf("%v: %v", m.Question, err))
	}
	return wire
}

// broken returns one of several malformed messages, by the hash of the name.
func broken(m *dns.Msg) []dnstest.Message {
	q := m.Question[0]
	good := pack(withAddress(m, 60))
	data := len(good) - 4 // of the address
	if malformed := map[uint16]string{dns.TypeEUI48: "010203", dns.TypeHTTPS: "00010000040000000100",
		dns.TypeNSEC: "00ff00"}[q.Qtype]; malformed != "" {
		m.Answer = []dns.RR{&dns.RFC3597{Hdr: header(q.Name, q.Qtype, 60), Rdata: malformed}}
		return []dnstest.Message{{Wire: pack(m)}}
	}
	if len(m.Answer) == 0 {
		return []dnstest.Message{{Wire: good}}
	}
	switch hash(q.Name) % 9 {
	case 0: // one record fewer than it counts
		binary.BigEndian.PutUint16(good[6:], 2)
	case 1: // an address of three octets
		good[data-1], good = 3, good[:len(good)-1]
	case 2: // data beyond the end
		good[data-2] = 0xFF
	case 3: // the owner is a loop of pointers
		at := len(good) - 4 - 10 - len(q.Name) - 1
		binary.BigEndian.PutUint16(good[at:], 0xC000|uint16(at))
	case 4: // another ID
		good[0] ^= 0xFF
	case 5: // not a message
		good = good[:7]
	case 6: // an alias of itself
		m.Answer = []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME, 60), Target: q.Name}}
		good = pack(m)
	case 7: // NXDOMAIN without an SOA record
		m.Rcode, m.Answer = dns.RcodeNameError, nil
		good = pack(m)
	case 8: // a query
		good[2] &^= 0x80
	}
	return []dnstest.Message{{Wire: good}}
}
