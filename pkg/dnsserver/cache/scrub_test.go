// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	archive := must.Get(txtar.ParseFile("testdata/" + file))(t)
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
