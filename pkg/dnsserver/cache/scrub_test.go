// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// signature returns a line with the signature of the records of a name.
func signature(owner, rrtype string) string {
	return fmt.Sprintf("%s 300 RRSIG %s 13 3 300 20300101000000 20250101000000 1 example.com. c2ln", owner, rrtype)
}

// TestPut_Scrub: of the records of a reply, those that belong to the question are cached.
func TestPut_Scrub(t *testing.T) {
	const all, servfail = "all", "SERVFAIL" // instead of records
	const foreign = "web.shop.svc.cluster.local. 3600 A 6.6.6.6"
	for _, tt := range []struct {
		name     string
		question string // with " +" for DO
		rcode    int
		records  string
		want     string
	}{
		{name: "foreign records in all sections", question: "a.poison.example. A",
			records: "a.poison.example. 300 A 192.0.2.1\n" + foreign + "\n--\nexample. 300 NS ns.bank.example.\n" +
				"--\ncached.example. 300 A 6.6.6.7",
			want: "a.poison.example. 300 A 192.0.2.1"},
		{name: "no record of the name", question: "a.poison.example. A", records: foreign, want: ""},
		{name: "another type", question: "www.example.com. A", records: "www.example.com. 300 AAAA 2001:db8::1\n" +
			"www.example.com. 300 A 192.0.2.1",
			want: "www.example.com. 300 A 192.0.2.1"},
		{name: "another class", question: "www.example.com. A", records: "www.example.com. 300 CH A 192.0.2.9\n" +
			"www.example.com. 300 A 192.0.2.1",
			want: "www.example.com. 300 A 192.0.2.1"},
		{name: "servers of the zone with an answer", question: "www.example.com. A",
			records: "www.example.com. 300 A 192.0.2.1\n--\nexample.com. 300 NS ns.example.com.\n--\n" +
				"ns.example.com. 300 A 192.0.2.9",
			want: "www.example.com. 300 A 192.0.2.1"},
		{name: "aliases in the wrong order, in mixed case", question: "a.example.com. A",
			records: "C.example.com. 300 A 192.0.2.1\nb.Example.com. 300 CNAME c.EXAMPLE.com.\n" +
				"A.example.com. 300 CNAME B.example.com.\n" + foreign,
			want: "a.example.com. 300 CNAME b.example.com.\nb.example.com. 300 CNAME c.example.com.\n" +
				"c.example.com. 300 A 192.0.2.1"},
		{name: "two aliases of a name", question: "a.example.com. A",
			records: "a.example.com. 300 CNAME b.example.com.\na.example.com. 300 CNAME c.example.com.\n" +
				"b.example.com. 300 A 192.0.2.1\nc.example.com. 300 A 192.0.2.2",
			want: "a.example.com. 300 CNAME b.example.com.\nb.example.com. 300 A 192.0.2.1"},
		{name: "a chain of 60", question: "c0.example.com. A", records: chain(60), want: all},
		{name: "DNAME", question: "www.old.example. A +",
			records: "old.example. 300 DNAME new.example.\n" + signature("old.example.", "DNAME") +
				"\nwww.old.example. 300 CNAME www.new.example.\nwww.new.example. 300 A 192.0.2.1\n" +
				"" + signature("www.new.example.", "A"), want: all},
		{name: "DNAME of another zone", question: "www.old.example. A",
			records: "other.example. 300 DNAME new.example.\nld.example. 300 DNAME new.example.\nwww.old.example. 300 A 192.0.2.1",
			want:    "www.old.example. 300 A 192.0.2.1"},
		{name: "an escaped dot", question: `www\.old.example. A`,
			records: `old.example. 300 DNAME new.example.` + "\n" +
				"" + `www\.old.example. 300 A 192.0.2.1`, want: `www\.old.example. 300 A 192.0.2.1`},
		{name: "a loop", question: "a.example.com. A",
			records: "a.example.com. 300 CNAME b.example.com.\nb.example.com. 300 CNAME a.example.com.",
			want:    servfail},
		{name: "a loop in mixed case, with an SOA", question: "a.example.com. A", rcode: dns.RcodeNameError,
			records: "a.example.com. 300 CNAME A.Example.com.\n--\n" + soa, want: servfail},
		{name: "NODATA", question: "www.example.com. AAAA",
			records: "--\nexample.com. 300 NS ns.example.com.\n" + soa + "\n--\nns.example.com. 300 A 192.0.2.9",
			want:    "--\n" + soa},
		{name: "a denial with the SOA of another zone", question: "www.example.com. AAAA", rcode: dns.RcodeNameError,
			records: "--\n" + strings.Replace(soa, "example.com.", "bank.example.", 1), want: ""},
		{name: "a denial of the target", question: "www.example.org. A", rcode: dns.RcodeNameError,
			records: "www.example.org. 300 CNAME www.example.com.\n--\n" + soa, want: all},
		{name: "proofs of a denial", question: "no.example.com. A +", rcode: dns.RcodeNameError,
			records: "--\n" + soa + "\n" + signature("example.com.", "SOA") + "\nm.example.com. 300 NSEC o.example.com. A\n" +
				signature("m.example.com.", "NSEC") + "\nexample.com. 300 NSEC a.example.com. A\n" +
				"" + signature("example.com.", "NSEC"), want: all},
		{name: "proofs of a denial, not for this client", question: "no.example.com. A", rcode: dns.RcodeNameError,
			records: "--\n" + soa + "\n" + signature("example.com.", "SOA") + "\n" +
				"m.example.com. 300 NSEC o.example.com. A", want: "--\n" + soa},
		{name: "a signed answer from a wildcard", question: "www.example.com. A +",
			records: "www.example.com. 300 A 192.0.2.1\n" + signature("www.example.com.", "A") +
				"\n--\n7Q.example.com. 300 NSEC3 1 0 0 - 0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM A\n" +
				"" + signature("7Q.example.com.", "NSEC3"), want: all},
		{name: "a signed answer, not for this client", question: "www.example.com. A",
			records: "www.example.com. 300 A 192.0.2.1\n" +
				"" + signature("www.example.com.", "A"), want: "www.example.com. 300 A 192.0.2.1"},
		{name: "a query for signatures", question: "www.example.com. RRSIG", records: signature("www.example.com.", "A"), want: all},
		{name: "MX", question: "example.com. MX",
			records: "example.com. 300 MX 10 Mail.example.com.\n--\n--\nmail.Example.com. 300 A 192.0.2.1\n" +
				"ns.example.com. 300 A 192.0.2.9\n" +
				"mail.example.com. 300 TXT \"x\"",
			want: "example.com. 300 MX 10 Mail.example.com.\n--\n--\nmail.Example.com. 300 A 192.0.2.1"},
		{name: "SRV, signed", question: "_x._tcp.example.com. SRV +",
			records: "_x._tcp.example.com. 300 SRV 0 0 53 ns.example.com.\n" + signature("_x._tcp.example.com.", "SRV") +
				"\n--\n--\nns.example.com. 300 AAAA 2001:db8::1\n" + signature("ns.example.com.", "AAAA"), want: all},
		{name: "HTTPS of the name itself, and SVCB of another", question: "www.example.com. HTTPS",
			records: "www.example.com. 300 HTTPS 1 . alpn=h2\n--\n--\nwww.example.com. 300 A 192.0.2.1", want: all},
		{name: "SVCB", question: "_dns.example.com. SVCB",
			records: "_dns.example.com. 300 SVCB 1 ns.example.com. alpn=dot\n--\n--\nns.example.com. 300 A 192.0.2.1", want: all},
		{name: "truncated", question: "www.example.com. A", records: "www.example.com. 300 A 192.0.2.1\n" + foreign,
			want: "www.example.com. 300 A 192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			question, do := strings.CutSuffix(tt.question, " +")
			query := ask(t, question)
			query.SetEdns0(1232, do)
			m := reply(t, query, tt.rcode, tt.records)
			m.Truncated = tt.name == "truncated"
			hit, _ := newCache(t, cache.Config{}).Put(questionOf(t, query), m, start, cache.PutOptions{})
			got := message(hit, cache.ReplyOptions{})
			if got == nil || got.Truncated != m.Truncated {
				t.Fatalf("got %v", got)
			}
			want := m
			switch tt.want {
			case all:
			case servfail:
				want = reply(t, query, dns.RcodeServerFailure, "")
			default:
				want = reply(t, query, tt.rcode, tt.want)
			}
			if got.Rcode != want.Rcode {
				t.Errorf("got %s, want %s", dns.RcodeToString[got.Rcode], dns.RcodeToString[want.Rcode])
			}
			for i, section := range [][]dns.RR{got.Answer, got.Ns, got.Extra} {
				if diff := cmp.Diff(sectionText([][]dns.RR{want.Answer, want.Ns, want.Extra}[i]), sectionText(section)); diff != "" {
					t.Errorf("section %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// sectionText returns the records in lower case and without TTLs. It leaves out OPT records.
func sectionText(records []dns.RR) (lines []string) {
	for _, r := range records {
		if r.Header().Rrtype != dns.TypeOPT {
			r = dns.Copy(r)
			r.Header().Ttl = 0
			lines = append(lines, strings.ToLower(r.String()))
		}
	}
	return lines
}

// hostileReplies returns replies of about 64 kB that could take long to scrub.
func hostileReplies(t testing.TB) map[string]*dns.Msg {
	deep := strings.Repeat("a.", 120) + "x."
	alias := func(from, to string) dns.RR {
		return &dns.CNAME{Hdr: dns.RR_Header{Name: from, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 300}, Target: to}
	}
	replies := map[string]*dns.Msg{}
	add := func(name string, n int, record func(i int) dns.RR) {
		m := reply(t, ask(t, "a.x. A"), 0, "")
		for i := range n {
			m.Answer = append(m.Answer, record(i))
		}
		replies[name] = m
	}
	add("a chain from its end", 3500, func(i int) dns.RR {
		if i == 3499 {
			return alias("a.x.", "n3498.x.")
		}
		return alias(fmt.Sprintf("n%d.x.", i), fmt.Sprintf("n%d.x.", i-1))
	})
	add("aliases of one name", 5400, func(int) dns.RR { return alias("a.x.", "a.x.") })
	add("a loop of two names", 5400, func(i int) dns.RR { return alias([]string{"a.x.", "b.x."}[i%2], []string{"b.x.", "a.x."}[i%2]) })
	add("DNAMEs of no ancestor, and long names", 2600, func(i int) dns.RR {
		switch {
		case i < 1000:
			return &dns.DNAME{Hdr: dns.RR_Header{Name: deep[3:], Rrtype: dns.TypeDNAME, Class: dns.ClassINET, Ttl: 300}, Target: "y."}
		case i == 1000:
			return alias("a.x.", "1001."+deep)
		}
		return alias(fmt.Sprintf("%d.%s", i, deep), fmt.Sprintf("%d.%s", i+1, deep))
	})
	return replies
}

// BenchmarkPut_Hostile measures replies of 64 kB. The time is that of packing, or less.
func BenchmarkPut_Hostile(b *testing.B) {
	for name, m := range hostileReplies(b) {
		b.Run(name, func(b *testing.B) {
			c, q := newCache(b, cache.Config{}), questionOf(b, ask(b, "a.x. A"))
			for b.Loop() {
				c.Put(q, m, start, cache.PutOptions{})
			}
		})
	}
}
