// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func newCache(t testing.TB, cfg cache.Config) *cache.Cache {
	t.Helper()
	return cache.New(cfg)
}

// ask returns a query such as "www.example.com. A".
func ask(t testing.TB, question string) *dns.Msg {
	t.Helper()
	name, qtype, ok := strings.Cut(question, " ")
	if !ok {
		t.Fatalf("invalid question %q", question)
	}
	return new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
}

func questionOf(t testing.TB, query *dns.Msg) cache.Question {
	t.Helper()
	q := query.Question[0]
	name := make([]byte, 255)
	n := must.Get(dns.PackDomainName(q.Name, name, 0, nil, false))(t)
	opt := query.IsEdns0()
	return cache.Question{Name: name[:n], Type: q.Qtype, Class: q.Qclass, DO: opt != nil && opt.Do(), CD: query.CheckingDisabled}
}

// cached returns the second result of Put.
func cached(_ cache.Hit, ok bool) bool { return ok }

// message returns the unpacked reply of a hit, or nil for a Miss.
func message(hit cache.Hit, options cache.ReplyOptions) *dns.Msg {
	m := new(dns.Msg)
	if wire := hit.Append(nil, options); wire == nil || m.Unpack(wire) != nil {
		return nil
	}
	return m
}

// reply returns the reply of an upstream server: its rcode and records, one per line. The
// sections are separated by "--".
func reply(t testing.TB, query *dns.Msg, rcode int, records string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetRcode(query, rcode)
	m.RecursionAvailable = true
	sections := []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra}
	for i, section := range strings.Split(records, "--") {
		for line := range strings.Lines(strings.TrimSpace(section)) {
			r, err := dns.NewRR(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			*sections[i] = append(*sections[i], r)
		}
	}
	return m
}

// text is a message as it reads, with its header flags.
func text(m *dns.Msg) string {
	if m == nil {
		return "nothing"
	}
	return strings.ReplaceAll(m.String(), "\t", " ")
}

const soa = "example.com. 600 SOA ns.example.com. host.example.com. 1 7200 1800 86400 60"

// chain returns n CNAMEs from c0.example.com to an address.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c%d.example.com. 300 CNAME c%d.example.com.\n", i, i+1)
	}
	fmt.Fprintf(&b, "c%d.example.com. 30 A 192.0.2.1", n)
	return b.String()
}

// Which replies are cached, and for how long: each is looked up just before and just after
// the end of its TTL.
func TestPut_TTL(t *testing.T) {
	for _, tt := range replyCases(t, "ttl.txtar") {
		t.Run(tt.name, func(t *testing.T) {
			ttl := 0.0
			if _, err := fmt.Sscanf(tt.want, "cached for %f s", &ttl); err != nil && tt.want != "not cached" {
				t.Fatal(err)
			}
			checkTTL(t, newCache(t, cache.Config{}), questionOf(t, tt.query), tt.reply, ttl)
		})
	}
	for what, change := range map[string]func(*dns.Msg){
		"truncated":                     func(m *dns.Msg) { m.Truncated = true },
		"not a reply":                   func(m *dns.Msg) { m.Response = false },
		"the reply to another question": func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA },
		"a notification":                func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify },
	} {
		t.Run(what, func(t *testing.T) {
			query := ask(t, "www.example.com. A")
			m := reply(t, query, 0, "www.example.com. 300 A 192.0.2.1")
			change(m)
			checkTTL(t, newCache(t, cache.Config{}), questionOf(t, query), m, 0)
		})
	}
}

// checkTTL puts a reply and checks that it is cached for that many seconds.
func checkTTL(t *testing.T, c *cache.Cache, q cache.Question, m *dns.Msg, ttl float64) {
	t.Helper()
	if got := cached(c.Put(q, m, start, cache.PutOptions{})); got != (ttl > 0) {
		t.Fatalf("Put = %t", got)
	}
	if ttl == 0 {
		return
	}
	if got := c.Get(q, after(ttl-0.001)); got.State != cache.Fresh {
		t.Errorf("%v a millisecond before the end of the TTL", got.State)
	}
	if got := c.Get(q, after(ttl)); got.State != cache.Miss && got.State != cache.Stale {
		t.Errorf("%v at the end of the TTL", got.State)
	}
}

// The key contains everything that an answer depends on, without the case of the name.
func TestGet_Key(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	q.Paths = []byte("ns.svc.cluster.local,corp.example")
	if !cached(c.Put(q, reply(t, query, 0, "www.example.com. 300 A 192.0.2.1"), start, cache.PutOptions{})) {
		t.Fatal("not cached")
	}
	tests := []struct {
		what   string
		change func(*cache.Question)
		want   cache.State
	}{
		{"the same", func(*cache.Question) {}, cache.Fresh},
		{"other case", func(q *cache.Question) { q.Name = []byte("\x03wWw\x07EXAMPLE\x03com\x00") }, cache.Fresh},
		{"other name", func(q *cache.Question) { q.Name = []byte("\x03wwx\x07example\x03com\x00") }, cache.Miss},
		{"other labels", func(q *cache.Question) { q.Name = []byte("\x0bwww.example\x03com\x00") }, cache.Miss},
		{"type", func(q *cache.Question) { q.Type = dns.TypeAAAA }, cache.Miss},
		{"class", func(q *cache.Question) { q.Class = dns.ClassCHAOS }, cache.Miss},
		{"DO", func(q *cache.Question) { q.DO = true }, cache.Miss},
		{"CD", func(q *cache.Question) { q.CD = true }, cache.Miss},
		{"paths", func(q *cache.Question) { q.Paths = []byte("ns.svc.cluster.local") }, cache.Miss},
		{"no paths", func(q *cache.Question) { q.Paths = nil }, cache.Miss},
		{"no name", func(q *cache.Question) { q.Name = nil }, cache.Miss},
		{"a name of 256 octets", func(q *cache.Question) { q.Name = make([]byte, 256) }, cache.Miss},
	}
	for _, tt := range tests {
		changed := q
		tt.change(&changed)
		if got := c.Get(changed, start); got.State != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got.State, tt.want)
		}
	}
}

// A hit has the ID, flags and case of the query, and decremented TTLs.
func TestHit_ReplyOptions(t *testing.T) {
	c := newCache(t, cache.Config{})
	first := ask(t, "www.example.com. A")
	first.SetEdns0(1232, true)
	upstream := reply(t, first, 0, `
		WWW.example.COM. 300 CNAME Target.Example.com.
		Target.Example.com. 90000 A 192.0.2.1
		--
		example.com. 200 NSEC ns.example.com. A RRSIG NSEC`)
	upstream.SetEdns0(4096, true)
	upstream.AuthenticatedData, upstream.Authoritative = true, true
	before := text(upstream)
	if !cached(c.Put(questionOf(t, first), upstream, start, cache.PutOptions{})) {
		t.Fatal("not cached")
	}
	if diff := cmp.Diff(before, text(upstream)); diff != "" {
		t.Errorf("Put changed the reply (-before +after):\n%s", diff)
	}

	later := ask(t, "wWw.Example.Com. A")
	later.SetEdns0(1232, true)
	q := questionOf(t, later)
	hit := c.Get(q, after(10.9))
	want := new(dns.Msg).SetReply(later)
	want.Id, want.RecursionAvailable, want.AuthenticatedData = 4711, true, true
	want.Answer = reply(t, later, 0, `
		wWw.Example.Com. 290 CNAME Target.Example.Com.
		Target.Example.Com. 3590 A 192.0.2.1`).Answer // the suffix compresses to the question, too
	want.Ns = reply(t, later, 0, "Example.Com. 190 NSEC ns.Example.Com. A RRSIG NSEC").Answer
	got := message(hit, cache.ReplyOptions{ID: 4711, Name: q.Name, RD: true, AD: true})
	if diff := cmp.Diff(strings.ToLower(text(want)), strings.ToLower(text(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if owner := got.Answer[0].Header().Name; owner != "wWw.Example.Com." {
		t.Errorf("the owner is %s", owner)
	}
	if got := message(hit, cache.ReplyOptions{ID: 1}); got.AuthenticatedData || got.RecursionDesired || got.Id != 1 || got.Authoritative {
		t.Errorf("without RD and AD: %v", got.MsgHdr)
	}
}

// CD is copied from the query (RFC 4035 section 3.2.2).
func TestHit_CheckingDisabled(t *testing.T) {
	c, query := newCache(t, cache.Config{}), ask(t, "www.example.com. A")
	query.CheckingDisabled = true
	hit, _ := c.Put(questionOf(t, query), reply(t, query, 0, "www.example.com. 300 A 192.0.2.1"), start, cache.PutOptions{})
	if m := message(hit, cache.ReplyOptions{}); m == nil || !m.CheckingDisabled {
		t.Errorf("CD is lost: %v", m)
	}
}

// NXDomainTTL agrees with Get about names that do not exist, and ignores other replies.
func TestNXDomainTTL_AgreesWithGet(t *testing.T) {
	tests := []struct {
		what    string
		rcode   int
		records string
		age     float64
		ttl     uint32
		want    bool
	}{
		{"a name that does not exist", dns.RcodeNameError, "--" + soa, 0, 60, true},
		{"later", dns.RcodeNameError, "--" + soa, 12.5, 48, true},
		{"at its end", dns.RcodeNameError, "--" + soa, 59.9, 1, true},
		{"past its end", dns.RcodeNameError, "--" + soa, 60, 0, false},
		{"without the type", dns.RcodeSuccess, "--" + soa, 0, 0, false},
		{"an alias of one that does not exist", dns.RcodeNameError, "www.example.com. 300 CNAME a.example.com.--" + soa, 0, 0, false},
		{"an address", dns.RcodeSuccess, "www.example.com. 300 A 192.0.2.1", 0, 0, false},
		{"a failure", dns.RcodeServerFailure, "", 0, 0, false},
	}
	for _, tt := range tests {
		c := newCache(t, cache.Config{})
		query := ask(t, "www.example.com. A")
		q := questionOf(t, query)
		if _, ok := c.NXDomainTTL(q, start); ok {
			t.Errorf("%s: an empty cache knows it", tt.what)
		}
		c.Put(q, reply(t, query, tt.rcode, tt.records), start, cache.PutOptions{})
		if ttl, ok := c.NXDomainTTL(q, after(tt.age)); ok != tt.want || ttl != tt.ttl {
			t.Errorf("%s: NXDOMAIN %t for %d s, want %t for %d s", tt.what, ok, ttl, tt.want, tt.ttl)
		}
		hit := c.Get(q, after(tt.age))
		// So clients do not cache it for longer (RFC 2308 section 5).
		if m := message(hit, cache.ReplyOptions{}); tt.want && (m.Rcode != tt.rcode || m.Ns[0].Header().Ttl != tt.ttl) {
			t.Errorf("%s: %d s, but Get returns %d s", tt.what, tt.ttl, m.Ns[0].Header().Ttl)
		}
	}
}

func TestGet_Miss(t *testing.T) {
	c := newCache(t, cache.Config{})
	hit := c.Get(questionOf(t, ask(t, "www.example.com. A")), start)
	if hit.State != cache.Miss || hit.Append(nil, cache.ReplyOptions{}) != nil {
		t.Errorf("a miss is not empty: %+v", hit)
	}
}

// TestHit_MaxLen cuts a reply to each length. It loses the additional records first; TC says
// that others are missing, too.
func TestHit_MaxLen(t *testing.T) {
	c := newCache(t, cache.Config{})
	q := ask(t, "www.example.com. MX").SetEdns0(1232, true)
	records := ""
	for i := range 20 {
		records += fmt.Sprintf("www.example.com. 300 MX %d www.example.com.\n", i)
	}
	if !cached(c.Put(questionOf(t, q),
		reply(t, q, 0, records+"--\nexample.com. 200 NSEC ns.example.com. A\n--\nwww.example.com. 100 A 192.0.2.99"),
		start, cache.PutOptions{})) {
		t.Fatal("not cached")
	}
	hit := c.Get(questionOf(t, q), after(1))
	const question, record = 12 + 17 + 4, 2 + 10 + 4
	whole := len(hit.Append(nil, cache.ReplyOptions{}))
	authority := whole - record - question - 20*record // with the NSEC record alone
	for limit := question; limit <= whole; limit++ {
		wire := hit.Append(nil, cache.ReplyOptions{MaxLen: limit})
		m := new(dns.Msg)
		if err := m.Unpack(wire); err != nil || len(wire) > limit {
			t.Fatalf("limit %d: %d octets, %v", limit, len(wire), err)
		}
		want := []int{min(20, (limit-question)/record), 0, 0}
		truncated := limit < question+20*record+authority
		if !truncated {
			want[1] = 1
		}
		if limit == whole {
			want[2] = 1
		}
		if got := []int{len(m.Answer), len(m.Ns), len(m.Extra)}; !slices.Equal(got, want) || m.Truncated != truncated {
			t.Errorf("limit %d: got %v records, TC %t, want %v, %t", limit, got, m.Truncated, want, truncated)
		}
		for _, rr := range m.Answer {
			if rr.Header().Ttl != 299 {
				t.Fatalf("limit %d: %v", limit, rr)
			}
		}
	}
}
