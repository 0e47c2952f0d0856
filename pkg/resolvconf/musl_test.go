// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strings"
	"testing"
)

// TestMusl_Rules has a case for each rule of musl. test/libc compares with the library.
func TestMusl_Rules(t *testing.T) {
	domain := func(line int) string { return strings.Repeat("a", line-len("search ")) }
	testRules(t, Musl, []readRule{
		{"empty file: 127.0.0.1, no domain, 1 dot, 5 seconds, 2 attempts", "", "", nil},
		{"what the kubelet writes", "search a.svc.x svc.x\nnameserver 10.96.0.10\noptions ndots:5\n",
			`servers [10.96.0.10], search ["a.svc.x" "svc.x"], ndots 5`, nil},

		{"keywords start in the first column", " nameserver 10.0.0.1\n", "", []string{"1 unknown keyword: nameserver 10.0.0.1"}},
		{"and end in any white space of C", "nameserver\v10.0.0.1\nsearch\ra\n", `servers [10.0.0.1], search ["a"]`, nil},
		{"and not in Unicode's", "search\u00a0a\n", "", []string{"1 unknown keyword: search\u00a0a"}},
		{"a BOM hides its line", "\ufeffsearch a\n", "", []string{"1 unknown keyword: \ufeffsearch a"}},
		{"CRLF is white space", "nameserver 10.0.0.1\r\nsearch a\r\n", `servers [10.0.0.1], search ["a"]`, nil},
		{"a comment is a line without a keyword", "#search a\n; search b\n", "", nil},
		{"there is none behind values", "search a # b\n", `search ["a" "#" "b"]`, nil},
		{"nor in options", "options # ndots:3\n", "ndots 3", []string{"1 unknown option: #"}},

		{"a line of 254 bytes", "search " + domain(254) + "\n", `search ["` + domain(254) + `"]`, nil},
		{"one of 255 is passed over", "search " + domain(255) + "\nsearch b\n", `search ["b"]`, []string{"1 line too long: 255 bytes"}},
		{"254 without a newline", "search " + domain(254), `search ["` + domain(254) + `"]`, nil},
		{"255 without a newline", "search " + domain(255), "", []string{"1 line too long: 255 bytes"}},

		{"a line with NUL takes the next with it", "search a\x00\nsearch b\nsearch c\n",
			`search ["c"]`, []string{"1 NUL: search a\x00", "2 NUL: search b"}},
		{"however long that is", "\x00\n#" + strings.Repeat("x", 300) + "\nsearch c\n", `search ["c"]`, []string{"1 NUL: \x00"}},
		{"without a newline the string ends at NUL", "search a\x00b", `search ["a"]`, []string{"1 NUL: b"}},
		{"a long line with NUL goes alone", "\x00" + strings.Repeat("x", 300) + "\nsearch c\n",
			`search ["c"]`, []string{"1 line too long: 301 bytes"}},

		{"addresses as inet_aton takes them", "nameserver 127.1\nnameserver 0x7f.2\nnameserver 0177.0.0.03\n",
			"servers [127.0.0.1 127.0.0.2 127.0.0.3]", nil},
		{"names are no addresses", "nameserver dns\n", "", []string{"1 invalid address: dns"}},
		{"one address a line", "nameserver 10.0.0.1 10.0.0.2\n", "servers [10.0.0.1]", []string{"1 trailing text: 10.0.0.2"}},
		{"nameserver alone", "nameserver\n", "", []string{"1 no value: nameserver"}},
		{"a link-local address has a zone", "nameserver fe80::1%eth0\n", "servers [fe80::1%eth0]", nil},
		{"others a number only, or the line goes", "nameserver fd00::1%2\nnameserver fd00::2%eth0\n" +
			"nameserver fd00::3%\n", "servers [fd00::1%2]", []string{"2 invalid zone: fd00::2%eth0", "3 invalid zone: fd00::3%"}},
		{"of 32 bits, for all", "nameserver fe80::1%4294967295\nnameserver fe80::2%4294967296\n",
			"servers [fe80::1%4294967295]", []string{"2 invalid zone: fe80::2%4294967296"}},
		{"three servers", "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n", "servers [10.0.0.1 10.0.0.2 10.0.0.3]", nil},
		{"and not four", "nameserver 10.0.0.1\nnameserver x\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n" +
			"nameserver 10.0.0.4\nnameserver y\n", "servers [10.0.0.1 10.0.0.2 10.0.0.3]",
			[]string{"2 invalid address: x", "5 too many servers: 10.0.0.4", "6 too many servers: y"}},

		{"the last search line wins", "search a b\nsearch c\n", `search ["c"]`, []string{"1 replaced: a b (replaced by line 2)"}},
		{"domain has as many values", "domain a b\n", `search ["a" "b"]`, nil},
		{"search alone empties the list", "search a\nsearch\n", "", []string{"1 replaced: a (replaced by line 2)"}},
		{"unless it ends the file", "search a\nsearch", `search ["a"]`, []string{"2 unknown keyword: search"}},

		{"the last line with a number wins", "options ndots:2\noptions ndots:3\n", "ndots 3",
			[]string{"1 replaced: ndots:2 (replaced by line 2)"}},
		{"in a line the first", "options ndots:2 ndots:3\n", "ndots 2", []string{"1 unknown option: ndots:3"}},
		{"or none, if no digit follows it", "options ndots:-1 ndots:3\n", "",
			[]string{"1 unknown option: ndots:-1", "1 unknown option: ndots:3"}},
		{"also after white space", "options timeout: 3\n", "", []string{"1 unknown option: timeout:", "1 unknown option: 3"}},
		{"options are found in the middle of a word", "options xndots:3,timeout:4\n", "ndots 3, timeout 4", nil},
		{"ndots 15", "options ndots:15\n", "ndots 15", nil},
		{"ndots 16", "options ndots:16\n", "ndots 15", []string{"1 out of range: ndots:16"}},
		{"timeout 60", "options timeout:60\n", "timeout 60", nil},
		{"timeout 61", "options timeout:61\n", "timeout 60", []string{"1 out of range: timeout:61"}},
		{"no timeout, no query", "options timeout:0\n", "timeout 0", nil},
		{"attempts 10", "options attempts:10\n", "attempts 10", nil},
		{"attempts 11", "options attempts:11\n", "attempts 10", []string{"1 out of range: attempts:11"}},
		{"any number of digits", "options attempts:99999999999999999999\n", "attempts 10",
			[]string{"1 out of range: attempts:99999999999999999999"}},
		{"the timeout is divided by the attempts", "options attempts:0\n", "attempts 0, crashes", []string{"1 crash: attempts:0"}},
		{"the last value counts", "options attempts:0\noptions attempts:1\n", "attempts 1",
			[]string{"1 replaced: attempts:0 (replaced by line 2)"}},
		{"there are no flags", "options rotate edns0\nsortlist 10.0.0.0\r\n", "",
			[]string{"1 unknown option: rotate", "1 unknown option: edns0", "2 unknown keyword: sortlist 10.0.0.0"}},
	})
}

func FuzzMusl(f *testing.F) { fuzz(f, Musl, 0, 60, 10) }
