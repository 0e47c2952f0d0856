// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readRule is a test case for one rule of a C library. want has the fields of the Resolver
// that differ from the defaults, as describe writes them. A remark is "line cause: text".
type readRule struct {
	rule, text, want string
	remarks          []string
}

func testRules(t *testing.T, read func(string) Resolver, rules []readRule) {
	for _, tt := range rules {
		t.Run(tt.rule, func(t *testing.T) {
			r := read(tt.text)
			if got := describe(r); got != tt.want {
				t.Errorf("%q\n got %q\nwant %q", tt.text, got, tt.want)
			}
			if diff := cmp.Diff(tt.remarks, remarks(r)); diff != "" {
				t.Errorf("%q, remarks (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func describe(r Resolver) string {
	var parts []string
	if !slices.Equal(r.Nameservers, []netip.Addr{netip.MustParseAddr("127.0.0.1")}) {
		parts = append(parts, fmt.Sprint("servers ", r.Nameservers))
	}
	if len(r.Search) > 0 {
		parts = append(parts, fmt.Sprintf("search %q", r.Search))
	}
	for _, n := range []struct {
		name       string
		is, normal int
	}{{"ndots", r.Ndots, 1}, {"timeout", r.Timeout, 5}, {"attempts", r.Attempts, 2}} {
		if n.is != n.normal {
			parts = append(parts, fmt.Sprint(n.name, " ", n.is))
		}
	}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"rotate", r.Rotate}, {"edns0", r.EDNS0}, {"single-request", r.SingleRequest},
		{"single-request-reopen", r.SingleRequestReopen}, {"no-tld-query", r.NoTLDQuery},
		{"no-reload", r.NoReload}, {"use-vc", r.UseVC}, {"trust-ad", r.TrustAD}, {"no-aaaa", r.NoAAAA}, {"crashes", r.Crashes},
	} {
		if f.is {
			parts = append(parts, f.name)
		}
	}
	return strings.Join(parts, ", ")
}

var causeNames = map[Cause]string{
	causeUnknownKeyword: "unknown keyword", causeNoValue: "no value", causeTrailingText: "trailing text",
	causeInvalidAddress: "invalid address", causeInvalidZone: "invalid zone", causeTooManyServers: "too many servers",
	causeUnknownOption: "unknown option", causeNoNumber: "no number", causeOutOfRange: "out of range",
	causeReplaced: "replaced", causeLineTooLong: "line too long", causeNUL: "NUL",
	causeNotModelled: "not modelled", causeCrash: "crash", causeAbort: "abort",
	causeRootDomain: "root domain", causeBufferFull: "buffer full",
}

func remarks(r Resolver) []string {
	var list []string
	for _, m := range r.Remarks {
		s := fmt.Sprintf("%d %s: %s", m.Line, causeNames[m.Cause], m.Text)
		if len(m.Text) > 50 {
			s = fmt.Sprintf("%d %s: %d bytes", m.Line, causeNames[m.Cause], len(m.Text))
		}
		if m.ReplacedBy != 0 {
			s += fmt.Sprintf(" (replaced by line %d)", m.ReplacedBy)
		}
		list = append(list, s)
	}
	return list
}

// TestGlibc_Rules has a case for each rule of glibc. test/libc compares with the library.
func TestGlibc_Rules(t *testing.T) {
	testRules(t, Glibc, []readRule{
		{"empty file: 127.0.0.1, no domain, 1 dot, 5 seconds, 2 attempts", "", "", nil},
		{"what the kubelet writes", "search a.svc.x svc.x\nnameserver 10.96.0.10\noptions ndots:5\n",
			`servers [10.96.0.10], search ["a.svc.x" "svc.x"], ndots 5`, nil},
		{"no final newline is needed", "nameserver 10.0.0.1", "servers [10.0.0.1]", nil},
		{"a tab parts as a blank does", "nameserver\t 10.0.0.1\t\nsearch\ta \t b\n", `servers [10.0.0.1], search ["a" "b"]`, nil},

		{"keywords start in the first column", " nameserver 10.0.0.1\n", "", []string{"1 unknown keyword: nameserver 10.0.0.1"}},
		{"and are lower case", "Search a\n", "", []string{"1 unknown keyword: Search a"}},
		{"and end in a blank or tab", "nameserver\v10.0.0.1\nsearch=a\n", "",
			[]string{"1 unknown keyword: nameserver\v10.0.0.1", "2 unknown keyword: search=a"}},
		{"a BOM hides its line", "\ufeffsearch a\n", "", []string{"1 unknown keyword: \ufeffsearch a"}},
		{"a semicolon or # in the first column opens a comment", "#search a\n;search b\n# \x00\n", "", nil},
		{"and nowhere else", "search a # b ; c\n", `search ["a" "#" "b" ";" "c"]`, nil},
		{"a string ends at NUL", "search a\x00b\nnameserver 10.0.0.1\n", `servers [10.0.0.1], search ["a"]`, []string{"1 NUL: b"}},
		{"invalid UTF-8 is text", "search \xff\n", `search ["\xff"]`, nil},
		{"lines have any length", "search" + strings.Repeat(" ", 5000) + "a\n", `search ["a"]`, nil},

		{"CR does not separate words: addresses are invalid and the domain contains it",
			"nameserver 10.0.0.1\r\nnameserver ::1\r\nsearch a b\r\noptions ndots:2\r\n",
			`search ["a" "b\r"], ndots 2`, []string{"1 invalid address: 10.0.0.1", "2 invalid address: ::1"}},
		{"a zone has the CR instead of the address", "nameserver fe80::1%eth0\r\n", "servers [fe80::1]",
			[]string{"1 invalid zone: fe80::1%eth0"}},

		{"addresses as inet_aton takes them", "nameserver 127.1\nnameserver 0x7f.2\nnameserver 0177.0.0.03\n",
			"servers [127.0.0.1 127.0.0.2 127.0.0.3]", nil},
		{"one number is the whole address", "nameserver 4294967295\nnameserver 4294967296\n",
			"servers [255.255.255.255]", []string{"2 invalid address: 4294967296"}},
		{"08 is not an octal number", "nameserver 08.0.0.1\n", "", []string{"1 invalid address: 08.0.0.1"}},
		{"names, ports and lists are no addresses", "nameserver dns\nnameserver 10.0.0.1:53\n" +
			"nameserver 10.0.0.1,10.0.0.2\n", "",
			[]string{"1 invalid address: dns", "2 invalid address: 10.0.0.1:53", "3 invalid address: 10.0.0.1,10.0.0.2"}},
		{"one address a line", "nameserver 10.0.0.1 10.0.0.2\n", "servers [10.0.0.1]", []string{"1 trailing text: 10.0.0.2"}},
		{"mapped addresses stay so", "nameserver ::ffff:10.0.0.1\n", "servers [::ffff:10.0.0.1]", nil},
		{"a link-local address has a zone", "nameserver fe80::1%eth0\nnameserver ff02::1%2\n", "servers [fe80::1%eth0 ff02::1%2]", nil},
		{"others a number only", "nameserver fd00::1%2\nnameserver fd00::2%eth0\n",
			"servers [fd00::1%2 fd00::2]", []string{"2 invalid zone: fd00::2%eth0"}},
		{"of 32 bits", "nameserver fd00::1%4294967295\nnameserver fd00::2%4294967296\n",
			"servers [fd00::1%4294967295 fd00::2]", []string{"2 invalid zone: fd00::2%4294967296"}},
		{"interface 0 and no name are no zone", "nameserver fe80::1%0\nnameserver fe80::2%\n",
			"servers [fe80::1 fe80::2]", []string{"2 invalid zone: fe80::2%"}},
		{"three servers", "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n", "servers [10.0.0.1 10.0.0.2 10.0.0.3]", nil},
		{"not four; an invalid address does not count", "nameserver 10.0.0.1\nnameserver x\n" +
			"nameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n",
			"servers [10.0.0.1 10.0.0.2 10.0.0.3]", []string{"2 invalid address: x", "5 too many servers: 10.0.0.4"}},
		{"twice is two", "nameserver 10.0.0.1\nnameserver 10.0.0.1\n", "servers [10.0.0.1 10.0.0.1]", nil},

		{"the last search line wins", "search a b\nsearch c\n", `search ["c"]`, []string{"1 replaced: a b (replaced by line 2)"}},
		{"domain is another word for it", "search a b\ndomain c\n", `search ["c"]`, []string{"1 replaced: a b (replaced by line 2)"}},
		{"with one value", "domain a b\n", `search ["a"]`, []string{"1 trailing text: b"}},
		{"search alone changes nothing", "search a\nsearch\nsearch \t\n", `search ["a"]`,
			[]string{"2 no value: search", "3 no value: search"}},
		{"more than six domains, kept as written", "search . a. B 4 5 6 7 8\n", `search ["." "a." "B" "4" "5" "6" "7" "8"]`, nil},

		{"options add up, the last number wins", "options ndots:2 rotate\noptions ndots:3\n",
			"ndots 3, rotate", []string{"1 replaced: ndots:2 (replaced by line 2)"}},
		{"ndots 15", "options ndots:15\n", "ndots 15", nil},
		{"ndots 16", "options ndots:16\n", "ndots 15", []string{"1 out of range: ndots:16"}},
		{"ndots has four bits", "options ndots:-2\n", "ndots 14", []string{"1 out of range: ndots:-2"}},
		{"timeout 30", "options timeout:30\n", "timeout 30", nil},
		{"timeout 31", "options timeout:31\n", "timeout 30", []string{"1 out of range: timeout:31"}},
		{"it waits a second at least", "options timeout:0\n", "timeout 1", []string{"1 out of range: timeout:0"}},
		{"attempts 5", "options attempts:5\n", "attempts 5", nil},
		{"attempts 6", "options attempts:6\n", "attempts 5", []string{"1 out of range: attempts:6"}},
		{"no attempt, no query", "options attempts:0\n", "attempts 0", nil},
		{"nor below", "options attempts:-1\n", "attempts 0", []string{"1 out of range: attempts:-1"}},
		{"no digits are 0", "options ndots:x\n", "ndots 0", []string{"1 no number: ndots:x"}},
		{"what follows digits is passed over", "options ndots:3x\n", "ndots 3", nil},
		{"atoi skips white space, also to the next word", "options ndots: 5 rotate\n", "ndots 5, rotate", nil},
		{"atoi cuts to 32 bits", "options timeout:4294967299\n", "timeout 3", nil},
		{"and saturates before", "options attempts:99999999999999999999\n", "attempts 0",
			[]string{"1 out of range: attempts:99999999999999999999"}},
		{"flags", "options rotate edns0 single-request no-tld-query no-reload use-vc trust-ad no-aaaa\n",
			"rotate, edns0, single-request, no-tld-query, no-reload, use-vc, trust-ad, no-aaaa", nil},
		{"by their beginning", "options rotated edns0:1 no_tld_query\n", "rotate, edns0, no-tld-query", nil},
		{"the longer of two names", "options single-request-reopen\n", "single-request-reopen", nil},
		{"other options do nothing", "options inet6 debug ROTATE #\n", "",
			[]string{"1 unknown option: inet6", "1 unknown option: debug", "1 unknown option: ROTATE", "1 unknown option: #"}},
		{"sortlist is for gethostbyname", "sortlist 10.0.0.0/255.0.0.0 11.0.0.0\n", "",
			[]string{"1 not modelled: sortlist 10.0.0.0/255.0.0.0 11.0.0.0"}},

		{"sortlist and CRLF hang", "sortlist 10.0.0.0\r\n", "crashes", []string{"1 crash: sortlist 10.0.0.0"}},
		{"so does a mask without an address", "sortlist x/8\n", "crashes", []string{"1 crash: sortlist x/8"}},
		{"a domain of 255 bytes", "search " + strings.Repeat("a", 255), `search ["` + strings.Repeat("a", 255) + `"]`, nil},
		{"one of 256 fails an assertion", "search " + strings.Repeat("a", 256),
			`search ["` + strings.Repeat("a", 256) + `"], crashes`, []string{"1 abort: 256 bytes"}},
		{"so do 257 bytes of domains", "search a " + strings.Repeat("b", 254),
			`search ["a" "` + strings.Repeat("b", 254) + `"], crashes`, []string{"1 abort: 256 bytes"}},
		{"unless more than 56 of them fit", "search " + strings.Repeat("a", 56) + " " + strings.Repeat("b", 254),
			`search ["` + strings.Repeat("a", 56) + `" "` + strings.Repeat("b", 254) + `"]`, nil},
		{"or six domains do", "search 1 2 3 4 5 6 " + strings.Repeat("b", 300),
			`search ["1" "2" "3" "4" "5" "6" "` + strings.Repeat("b", 300) + `"]`, nil},
	})
}

func FuzzGlibc(f *testing.F) { fuzz(f, Glibc, 1, 30, 5) }

// fuzz checks invariants that hold for both libraries.
func fuzz(f *testing.F, read func(string) Resolver, minTimeout, maxTimeout, maxAttempts int) {
	f.Add("nameserver 127.1\nsearch a b\noptions ndots:5 timeout: 3\n")
	f.Add("domain a\x00\r\nsortlist x/\nnameserver fe80::1%lo 1\noptions attempts:-9999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		r := read(text)
		if n := len(r.Nameservers); n < 1 || n > 3 {
			t.Errorf("%d servers", n)
		}
		for _, s := range r.Nameservers {
			if !s.IsValid() {
				t.Error("invalid server address")
			}
		}
		if r.Ndots < 0 || r.Ndots > 15 || r.Timeout < minTimeout || r.Timeout > maxTimeout || r.Attempts < 0 || r.Attempts > maxAttempts {
			t.Errorf("ndots %d, timeout %d, attempts %d", r.Ndots, r.Timeout, r.Attempts)
		}
		for _, domain := range r.Search {
			if domain == "" || strings.ContainsAny(domain, " \t\n\x00") {
				t.Errorf("search domain %q", domain)
			}
		}
		survived := true
		for _, m := range r.Remarks {
			if lines := strings.Count(text, "\n") + 1; m.Line < 1 || m.Line > lines || m.ReplacedBy > lines {
				t.Errorf("%+v in a text of %d lines", m, lines)
			}
			if !strings.Contains(text, m.Text) || strings.HasPrefix(m.Cause.String(), "Cause(") {
				t.Errorf("%+v is not in the text, or has no cause", m)
			}
			survived = survived && m.Cause != causeCrash && m.Cause != causeAbort
		}
		if r.Crashes == survived {
			t.Errorf("Crashes is %t, and the remarks differ", r.Crashes)
		}
	})
}

// TestReaders_LargeText reads texts of 1 MiB. A read takes about 10 ms. It exceeds the limit
// if the work is quadratic in the number of bytes, words or lines.
func TestReaders_LargeText(t *testing.T) {
	const limit = 20 * time.Second // a busy machine is slow; quadratic work takes minutes
	readers := map[string]func(string){
		"Parse": func(text string) { Parse(text) },
		"Glibc": func(text string) { Glibc(text) },
		"Musl":  func(text string) { Musl(text) },
	}
	for _, s := range []string{"x", "\n", "\x00", "\x00\n", "a ", "search a\n", "search ",
		"options ndots:", "ndots: ", "nameserver ::1%", "sortlist x ", "0."} {
		for _, start := range []string{"", "options ", "search ", "nameserver ", "sortlist ", "options ndots:"} {
			text := start + strings.Repeat(s, 1<<20/len(s))
			for name, read := range readers {
				done := make(chan struct{})
				go func() {
					defer close(done)
					read(text)
				}()
				select {
				case <-done:
				case <-time.After(limit):
					t.Fatalf("%s needs more than %v for %q and 1 MiB of %q", name, limit, start, s)
				}
			}
		}
	}
}
