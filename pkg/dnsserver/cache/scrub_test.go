// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// replyCase is a section of a file in testdata: a reply and what is cached of it.
type replyCase struct {
	name         string
	query, reply *dns.Msg
	want         string
}

// replyCases reads a file.
func replyCases(t *testing.T, file string) (list []replyCase) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		text := strings.ReplaceAll(string(f.Data), "CHAIN OF 60", chain(60))
		question, text, _ := strings.Cut(text, "\n")
		records, want, ok := strings.Cut(text, "=>\n")
		if !ok {
			t.Fatalf("%s has no result", f.Name)
		}
		words := strings.Fields(question)
		rcode, do := dns.RcodeSuccess, slices.Contains(words, "+")
		if known, ok := dns.StringToRcode[words[len(words)-1]]; ok {
			rcode = known
		}
		query := ask(t, words[0]+" "+words[1]).SetEdns0(1232, do)
		list = append(list, replyCase{f.Name, query, reply(t, query, rcode, records), strings.TrimSpace(want)})
	}
	return list
}

// TestPut_Scrub: of the records of a reply, those that belong to the question are cached.
func TestPut_Scrub(t *testing.T) {
	for _, tt := range replyCases(t, "scrub.txtar") {
		t.Run(tt.name, func(t *testing.T) {
			tt.reply.Truncated = tt.name == "truncated"
			hit, _ := newCache(t, cache.Config{}).Put(questionOf(t, tt.query), tt.reply, start, cache.PutOptions{})
			got := message(hit, cache.ReplyOptions{})
			if got == nil || got.Truncated != tt.reply.Truncated {
				t.Fatalf("got %v", got)
			}
			want := tt.reply
			switch tt.want {
			case "all":
			case "SERVFAIL":
				want = reply(t, tt.query, dns.RcodeServerFailure, "")
			default:
				want = reply(t, tt.query, tt.reply.Rcode, tt.want)
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
