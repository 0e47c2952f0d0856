// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write the results into the script: read the diff before committing it")

// TestCache_Script runs the scripts of testdata/script.txtar, whose first lines explain them: one question over time.
func TestCache_Script(t *testing.T) {
	const path = "testdata/script.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil || len(archive.Files) < 20 {
		t.Fatal(len(archive.Files), err)
	}
	for i, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			query := ask(t, "www.example.com. A")
			s := script{c: newCache(t, cache.Config{}), query: query, q: questionOf(t, query)}
			text := ""
			for line := range strings.Lines(string(f.Data)) {
				line, comment, _ := strings.Cut(strings.TrimSpace(line), "  # ")
				step, want, _ := strings.Cut(line, "=>")
				got := s.run(t, strings.Fields(step))
				if got != strings.TrimSpace(want) && !*update {
					t.Errorf("%s: got %s, want %s", strings.TrimSpace(step), got, want)
				}
				if got != "" {
					step = fmt.Sprintf("%-24s => %s", strings.TrimSpace(step), got)
				}
				if comment != "" {
					step += "  # " + comment
				}
				text += step + "\n"
			}
			archive.Files[i].Data = []byte(text)
		})
	}
	if *update {
		must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
}

// script is a cache with one question.
type script struct {
	c       *cache.Cache
	query   *dns.Msg
	q       cache.Question
	current cache.Generation
	options cache.PutOptions // of all replies
}

// run performs the step "SECOND EVENT [OPTION]..." and returns the result, or sets the options of all replies.
func (s *script) run(t *testing.T, words []string) string {
	t.Helper()
	second, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		s.options = s.withOptions(t, words)
		return ""
	}
	switch words[1] {
	case "clear":
		s.current = s.c.Clear()
		return strings.Trim(fmt.Sprintf("%+v", s.c.Stats()), "{}")
	case "get":
		hit := s.c.Get(s.q, after(second))
		text := strings.TrimSpace(hit.State.String() + " " + hitText(hit))
		if hit.State == cache.Failing {
			text += fmt.Sprint(", failed at ", hit.FailedAt().Sub(start).Seconds())
		}
		return text
	}
	hit, stored := s.c.Put(s.q, s.reply(t, words[1]), after(second), s.withOptions(t, words[2:]))
	if !stored {
		return hitText(hit) + ", not cached"
	}
	return hitText(hit)
}

func (s *script) withOptions(t *testing.T, words []string) cache.PutOptions {
	t.Helper()
	o := s.options
	o.Generation = s.current
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		d, err := time.ParseDuration(value)
		switch {
		case word == "old":
			o.Generation--
		case word == "discarded":
			o.Discard = true
		case word == "caused":
			o.Cause = 7
		case err != nil:
			t.Fatalf("%s: %v", word, err)
		case key == "retry":
			o.RetryInterval = d
		case key == "lastKnownGood":
			o.LastKnownGood = d
		case key == "sent":
			o.SentAt = start.Add(d)
		}
	}
	return o
}

// denials are replies without an answer to the question, with their rcodes.
var denials = map[string]struct {
	rcode   int
	records string
}{
	"nxdomain": {dns.RcodeNameError, "--" + soa},
	"broken":   {dns.RcodeNameError, "www.example.com. 50 A 192.0.2.9"},
	"dangling": {dns.RcodeNameError, "www.example.com. 50 CNAME gone.example.com.\n--" + soa},
	"nodata":   {dns.RcodeSuccess, "--" + soa},
	"lame":     {dns.RcodeSuccess, "--com. 50 NS a.gtld-servers.net."},
	"loop":     {dns.RcodeSuccess, "www.example.com. 50 CNAME www.example.com."},
}

// reply returns the reply of an event.
func (s *script) reply(t *testing.T, event string) *dns.Msg {
	t.Helper()
	rcode, isRcode := dns.StringToRcode[event]
	denial, isDenial := denials[event]
	switch {
	case isRcode:
		return reply(t, s.query, rcode, "")
	case isDenial:
		return reply(t, s.query, denial.rcode, denial.records)
	case event == "truncated":
		m := reply(t, s.query, 0, "")
		m.Truncated = true
		return m
	}
	ttl, last, _ := strings.Cut(event, "/")
	return reply(t, s.query, 0, "www.example.com. "+ttl+" A 192.0.2."+last)
}

// hitText returns the address and its TTL, or the rcode, and the cause of a failure.
func hitText(hit cache.Hit) string {
	m := message(hit, cache.ReplyOptions{})
	if m == nil {
		return ""
	}
	text := dns.RcodeToString[m.Rcode]
	if len(m.Answer) > 0 {
		text = fmt.Sprintf("%v/%d", m.Answer[0].(*dns.A).A, m.Answer[0].Header().Ttl)
	}
	if hit.Denied() {
		text += " denied"
	}
	if cause := hit.Cause(); cause != 0 {
		text += fmt.Sprint(" cause ", cause)
	}
	return text
}
