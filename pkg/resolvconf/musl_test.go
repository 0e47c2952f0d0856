// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strings"
	"testing"
)

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
