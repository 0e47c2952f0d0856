// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readRule is a test case for a rule of a C library about lines or words that have no effect. A remark is
// "line cause: text". test/libc compares what has an effect, for each rule, with the libraries.
type readRule struct {
	rule, text string
	remarks    []string
}

func testRules(t *testing.T, read func(string) Resolver, rules []readRule) {
	for _, tt := range rules {
		t.Run(tt.rule, func(t *testing.T) {
			if diff := cmp.Diff(tt.remarks, remarks(read(tt.text))); diff != "" {
				t.Errorf("%q, remarks (-want +got):\n%s", tt.text, diff)
			}
		})
	}
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

func TestGlibc_Remarks(t *testing.T) {
	testRules(t, Glibc, []readRule{
		{"what has an effect", "# a\nnameserver 127.1\nsearch " + strings.Repeat("a", 56) + " " + strings.Repeat("b", 254) +
			"\noptions rotate edns0:1 single-request-reopen no_tld_query no-reload use-vc trust-ad no-aaaa" +
			" ndots:15 timeout: 30 attempts:5\n", nil},
		{"more than six search domains", "search 1 2 3 4 5 6 " + strings.Repeat("b", 300), nil},

		{"keywords start in the first column", " nameserver 10.0.0.1\n", []string{"1 unknown keyword: nameserver 10.0.0.1"}},
		{"keywords are lower case", "Search a\n", []string{"1 unknown keyword: Search a"}},
		{"keywords end in a blank or tab", "nameserver\v10.0.0.1\nsearch=a\n",
			[]string{"1 unknown keyword: nameserver\v10.0.0.1", "2 unknown keyword: search=a"}},
		{"a BOM hides its line", "\ufeffsearch a\n", []string{"1 unknown keyword: \ufeffsearch a"}},
		{"a string ends at NUL", "search a\x00b\nnameserver 10.0.0.1\n", []string{"1 NUL: b"}},

		{"CR does not separate words: addresses are invalid and the domain contains it",
			"nameserver 10.0.0.1\r\nnameserver ::1\r\nsearch a b\r\noptions ndots:2\r\n",
			[]string{"1 invalid address: 10.0.0.1", "2 invalid address: ::1"}},
		{"a zone has the CR instead of the address", "nameserver fe80::1%eth0\r\n", []string{"1 invalid zone: fe80::1%eth0"}},

		{"one number is the whole address", "nameserver 4294967295\nnameserver 4294967296\n", []string{"2 invalid address: 4294967296"}},
		{"08 is not an octal number", "nameserver 08.0.0.1\n", []string{"1 invalid address: 08.0.0.1"}},
		{"names, ports and lists are no addresses", "nameserver dns\nnameserver 10.0.0.1:53\nnameserver 10.0.0.1,10.0.0.2\n",
			[]string{"1 invalid address: dns", "2 invalid address: 10.0.0.1:53", "3 invalid address: 10.0.0.1,10.0.0.2"}},
		{"one address a line", "nameserver 10.0.0.1 10.0.0.2\n", []string{"1 trailing text: 10.0.0.2"}},
		{"a zone is a number, except that of a link-local address", "nameserver fd00::1%2\nnameserver fd00::2%eth0\n",
			[]string{"2 invalid zone: fd00::2%eth0"}},
		{"a zone has 32 bits", "nameserver fd00::1%4294967295\nnameserver fd00::2%4294967296\n",
			[]string{"2 invalid zone: fd00::2%4294967296"}},
		{"interface 0 and no name are no zone", "nameserver fe80::1%0\nnameserver fe80::2%\n", []string{"2 invalid zone: fe80::2%"}},
		{"three servers, and an invalid address does not count",
			"nameserver 10.0.0.1\nnameserver x\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n",
			[]string{"2 invalid address: x", "5 too many servers: 10.0.0.4"}},

		{"the last search line wins", "search a b\nsearch c\n", []string{"1 replaced: a b (replaced by line 2)"}},
		{"domain is another word for it", "search a b\ndomain c\n", []string{"1 replaced: a b (replaced by line 2)"}},
		{"domain has one value", "domain a b\n", []string{"1 trailing text: b"}},
		{"search alone changes nothing", "search a\nsearch\nsearch \t\n", []string{"2 no value: search", "3 no value: search"}},

		{"options add up, the last number wins", "options ndots:2 rotate\noptions ndots:3\n",
			[]string{"1 replaced: ndots:2 (replaced by line 2)"}},
		{"ndots 16", "options ndots:16\n", []string{"1 out of range: ndots:16"}},
		{"ndots has four bits", "options ndots:-2\n", []string{"1 out of range: ndots:-2"}},
		{"timeout 31", "options timeout:31\n", []string{"1 out of range: timeout:31"}},
		{"it waits a second at least", "options timeout:0\n", []string{"1 out of range: timeout:0"}},
		{"attempts 6", "options attempts:6\n", []string{"1 out of range: attempts:6"}},
		{"attempts below 0", "options attempts:-1\n", []string{"1 out of range: attempts:-1"}},
		{"no digits are 0", "options ndots:x\n", []string{"1 no number: ndots:x"}},
		{"a number saturates before it is cut to 32 bits", "options attempts:99999999999999999999\n",
			[]string{"1 out of range: attempts:99999999999999999999"}},
		{"other options do nothing", "options inet6 debug ROTATE #\n",
			[]string{"1 unknown option: inet6", "1 unknown option: debug", "1 unknown option: ROTATE", "1 unknown option: #"}},
		{"sortlist is for gethostbyname", "sortlist 10.0.0.0/255.0.0.0 11.0.0.0\n",
			[]string{"1 not modelled: sortlist 10.0.0.0/255.0.0.0 11.0.0.0"}},

		{"sortlist and CRLF hang", "sortlist 10.0.0.0\r\n", []string{"1 crash: sortlist 10.0.0.0"}},
		{"so does a mask without an address", "sortlist x/8\n", []string{"1 crash: sortlist x/8"}},
		{"one of 256 fails an assertion", "search " + strings.Repeat("a", 256), []string{"1 abort: 256 bytes"}},
		{"so do 257 bytes of domains", "search a " + strings.Repeat("b", 254), []string{"1 abort: 256 bytes"}},
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
			if !strings.Contains(text, m.Text) || m.Cause == "" {
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

func TestMusl_Remarks(t *testing.T) {
	domain := func(line int) string { return strings.Repeat("a", line-len("search ")) }
	testRules(t, Musl, []readRule{
		{"what has an effect", "#a\nnameserver\v127.1\r\nsearch " + domain(254) + "\noptions xndots:15,timeout:60 attempts:10\n", nil},
		{"keywords start in the first column", " nameserver 10.0.0.1\n", []string{"1 unknown keyword: nameserver 10.0.0.1"}},
		{"Unicode's white space does not end a keyword", "search\u00a0a\n", []string{"1 unknown keyword: search\u00a0a"}},
		{"a BOM hides its line", "\ufeffsearch a\n", []string{"1 unknown keyword: \ufeffsearch a"}},
		{"a # in options is a word", "options # ndots:3\n", []string{"1 unknown option: #"}},

		{"a line of 255 bytes is passed over", "search " + domain(255) + "\nsearch b\n", []string{"1 line too long: 255 bytes"}},
		{"255 without a newline", "search " + domain(255), []string{"1 line too long: 255 bytes"}},

		{"a line with NUL takes the next with it", "search a\x00\nsearch b\nsearch c\n",
			[]string{"1 NUL: search a\x00", "2 NUL: search b"}},
		{"a line with NUL takes a long one with it", "\x00\n#" + strings.Repeat("x", 300) + "\nsearch c\n", []string{"1 NUL: \x00"}},
		{"without a newline the string ends at NUL", "search a\x00b", []string{"1 NUL: b"}},
		{"a long line with NUL goes alone", "\x00" + strings.Repeat("x", 300) + "\nsearch c\n", []string{"1 line too long: 301 bytes"}},

		{"names are no addresses", "nameserver dns\n", []string{"1 invalid address: dns"}},
		{"one address a line", "nameserver 10.0.0.1 10.0.0.2\n", []string{"1 trailing text: 10.0.0.2"}},
		{"nameserver alone", "nameserver\n", []string{"1 no value: nameserver"}},
		{"a zone is a number, except that of a link-local address, or the line goes",
			"nameserver fd00::1%2\nnameserver fd00::2%eth0\nnameserver fd00::3%\n",
			[]string{"2 invalid zone: fd00::2%eth0", "3 invalid zone: fd00::3%"}},
		{"a zone has 32 bits", "nameserver fe80::1%4294967295\nnameserver fe80::2%4294967296\n",
			[]string{"2 invalid zone: fe80::2%4294967296"}},
		{"three servers, not four",
			"nameserver 10.0.0.1\nnameserver x\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\nnameserver y\n",
			[]string{"2 invalid address: x", "5 too many servers: 10.0.0.4", "6 too many servers: y"}},

		{"the last search line wins", "search a b\nsearch c\n", []string{"1 replaced: a b (replaced by line 2)"}},
		{"search alone empties the list", "search a\nsearch\n", []string{"1 replaced: a (replaced by line 2)"}},
		{"unless it ends the file", "search a\nsearch", []string{"2 unknown keyword: search"}},

		{"the last line with a number wins", "options ndots:2\noptions ndots:3\n", []string{"1 replaced: ndots:2 (replaced by line 2)"}},
		{"in a line the first", "options ndots:2 ndots:3\n", []string{"1 unknown option: ndots:3"}},
		{"or none, if no digit follows the first", "options ndots:-1 ndots:3\n",
			[]string{"1 unknown option: ndots:-1", "1 unknown option: ndots:3"}},
		{"ndots, timeout and attempts end with their colon", "options timeout: 3\n",
			[]string{"1 unknown option: timeout:", "1 unknown option: 3"}},
		{"ndots 16", "options ndots:16\n", []string{"1 out of range: ndots:16"}},
		{"timeout 61", "options timeout:61\n", []string{"1 out of range: timeout:61"}},
		{"attempts 11", "options attempts:11\n", []string{"1 out of range: attempts:11"}},
		{"any number of digits", "options attempts:99999999999999999999\n", []string{"1 out of range: attempts:99999999999999999999"}},
		{"the timeout is divided by the attempts", "options attempts:0\n", []string{"1 crash: attempts:0"}},
		{"the last value counts", "options attempts:0\noptions attempts:1\n", []string{"1 replaced: attempts:0 (replaced by line 2)"}},
		{"there are no flags", "options rotate edns0\nsortlist 10.0.0.0\r\n",
			[]string{"1 unknown option: rotate", "1 unknown option: edns0", "2 unknown keyword: sortlist 10.0.0.0"}},
	})
}

func FuzzMusl(f *testing.F) { fuzz(f, Musl, 0, 60, 10) }

func TestGo_Remarks(t *testing.T) {
	testRules(t, Go, []readRule{
		{"what has an effect", " \t\rnameserver\r10.0.0.1\n #a\nsearch a\x00b\n" +
			";a\noptions rotate use-vc trust-ad no-reload single-request-reopen edns0 ndots:15", nil},
		{"an empty file", "", nil},
		{"no other white space", "nameserver\v10.0.0.1\n", []string{"1 unknown keyword: nameserver\v10.0.0.1"}},
		{"a line of 64 KiB ends the file", "nameserver 10.0.0.1\n" + strings.Repeat("x", 1<<16) + "\nsearch a\n",
			[]string{"2 buffer full: 67 bytes"}},

		{"addresses in the usual form only", "nameserver 127.1\nnameserver 010.0.0.1\nnameserver fe80::1%lo\n",
			[]string{"1 invalid address: 127.1", "2 invalid address: 010.0.0.1"}},
		{"a fourth server", "nameserver 10.0.0.1\nnameserver 10.0.0.2 x\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n",
			[]string{"2 trailing text: x", "4 too many servers: 10.0.0.4"}},
		{"nameserver alone", "nameserver 10.0.0.1\nnameserver\n", []string{"2 no value: nameserver"}},

		{"the last search line wins", "nameserver 10.0.0.1\nsearch a\nsearch b .\n",
			[]string{"2 replaced: a (replaced by line 3)", "3 root domain: ."}},
		{"an empty search line clears the list", "nameserver 10.0.0.1\nsearch a\nsearch\n",
			[]string{"2 replaced: a (replaced by line 3)"}},
		{"domain has one value", "nameserver 10.0.0.1\ndomain a b\ndomain\n", []string{"2 trailing text: b", "3 no value: domain"}},

		{"numbers", "nameserver 10.0.0.1\noptions ndots:16 timeout:0 attempts:99999999999999999999x\n",
			[]string{"2 out of range: ndots:16", "2 out of range: timeout:0", "2 out of range: attempts:99999999999999999999x"}},
		{"no numbers", "nameserver 10.0.0.1\noptions ndots:-1 timeout:x ndots:2\n",
			[]string{"2 no number: ndots:-1", "2 no number: timeout:x", "2 replaced: ndots:-1 (replaced by line 2)"}},
		{"flags are exact", "nameserver 10.0.0.1\noptions rotated no-aaaa\n",
			[]string{"2 unknown option: rotated", "2 unknown option: no-aaaa"}},
	})
}
