// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// A cached reply comes back as a valid message with the same records, except for what a
// cache must change.
func FuzzPut(f *testing.F) {
	for _, s := range []struct{ question, records string }{
		{"www.example.com. A", "WWW.example.com. 300 CNAME b.example.com.\nb.example.com. 30 A 192.0.2.1"},
		{"no.example.com. A", "--\n" + soa},
		{"_sip._tcp.example.com. SRV", "_sip._tcp.example.com. 300 SRV 0 0 53 ns.example.com.\n--\n--\nns.example.com. 7 A 192.0.2.9"},
		{"example.com. HTTPS", "example.com. 300 HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1"},
		{`a\.b\000.example.com. TXT`, `a\.b\000.example.com. 300 TXT "" "\255"`},
		{". NS", ". 300 NS a.root-servers.net."},
	} {
		m := reply(f, ask(f, s.question), 0, s.records)
		wire := must.Get(m.Pack())(f)
		f.Add(wire)
		m.SetEdns0(1232, true)
		for _, m.Rcode = range []int{dns.RcodeNameError, dns.RcodeFormatError, dns.RcodeBadVers} {
			wire = must.Get(m.Pack())(f)
			f.Add(wire)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) { checkPut(t, wire) })
}

// checkPut puts one message as the reply to its own question and compares the hit.
func checkPut(t *testing.T, wire []byte) {
	m := new(dns.Msg)
	if m.Unpack(wire) != nil || len(m.Question) != 1 {
		return
	}
	q, c := questionOf(t, m), newCache(t, cache.Config{})
	before := m.String()
	isCached := cached(c.Put(q, m, start, cache.PutOptions{}))
	if m.String() != before {
		t.Fatalf("Put changed the reply:\n%s\n%s", before, m)
	}
	if !isCached {
		return
	}
	for i, b := range q.Name { // a query in upper case
		if 'a' <= b && b <= 'z' {
			q.Name[i] = b - 32
		}
	}
	hit := c.Get(q, start)
	options := cache.ReplyOptions{ID: 7, Name: q.Name}
	reply := hit.Append([]byte("before"), options)[len("before"):]
	got := new(dns.Msg)
	if err := got.Unpack(reply); err != nil {
		t.Fatalf("%v: %x", err, reply)
	}
	alone := message(hit, options)
	if alone == nil || alone.MsgHdr != got.MsgHdr || !slices.Equal(alone.Question, got.Question) ||
		!slices.Equal(sortedText(alone.Answer), sortedText(got.Answer)) {
		t.Errorf("got %v after other octets, %v alone", got, alone)
	}
	rcode := m.Rcode
	if rcode > 15 { // its upper bits are in the OPT record, which is not cached
		rcode = dns.RcodeServerFailure
	}
	if got.Id != 7 || got.Rcode != rcode || got.IsEdns0() != nil {
		t.Errorf("got %v", got)
	}
	if rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError { // failures are cached without records
		checkChain(t, m.Question[0], got.Answer)
		checkSubset(t, m.Answer, got.Answer)
		checkSubset(t, m.Ns, got.Ns)
		checkSubset(t, m.Extra, got.Extra)
	}
}

// sortedText returns the records as sorted lines: a hit rotates addresses.
func sortedText(records []dns.RR) (lines []string) {
	for _, r := range records {
		lines = append(lines, r.String())
	}
	slices.Sort(lines)
	return lines
}

// checkChain checks that the records are the aliases from the name of the question, and then the records
// of the type at their end.
func checkChain(t *testing.T, q dns.Question, records []dns.RR) {
	t.Helper()
	name := q.Name
	for _, r := range records {
		h := r.Header()
		switch r := r.(type) {
		case *dns.DNAME:
			if q.Qtype == h.Rrtype || h.Name == "." || strings.HasSuffix(strings.ToLower(name), strings.ToLower(h.Name)) {
				continue
			}
		case *dns.CNAME:
			if strings.EqualFold(h.Name, name) {
				if q.Qtype != h.Rrtype {
					name = r.Target
				}
				continue
			}
		}
		if h.Rrtype != q.Qtype || !strings.EqualFold(h.Name, name) {
			t.Fatalf("%v is not a record of %s %s in %v", r, name, dns.Type(q.Qtype), records)
		}
	}
}

// checkSubset checks that the cached records are in the reply. It ignores the TTLs and the case of names.
func checkSubset(t *testing.T, upstream, cached []dns.RR) {
	t.Helper()
	largest := uint32(0) // in the section, because addresses are rotated
	for _, r := range upstream {
		largest = max(largest, r.Header().Ttl)
	}
	known := sectionText(upstream)
	for i, r := range sectionText(cached) {
		if cached[i].Header().Ttl > largest || !slices.Contains(known, r) {
			t.Errorf("%v in %v", cached[i], upstream)
		}
	}
}
