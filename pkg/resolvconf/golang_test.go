// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strings"
	"testing"
)

// TestGo_Rules has a case for each rule of Go. test/libc compares with package net.
func TestGo_Rules(t *testing.T) {
	testRules(t, Go, []readRule{
		{"empty file: 127.0.0.1 and ::1", "", "servers [127.0.0.1 ::1], edns0", nil},
		{"what the kubelet writes", "search a.svc.x svc.x\nnameserver 10.96.0.10\noptions ndots:5\n",
			`servers [10.96.0.10], search ["a.svc.x" "svc.x"], ndots 5, edns0`, nil},

		{"blanks before a keyword", " \t\rnameserver\r10.0.0.1\n", "servers [10.0.0.1], edns0", nil},
		{"no other white space", "nameserver\v10.0.0.1\n", "servers [127.0.0.1 ::1], edns0",
			[]string{"1 unknown keyword: nameserver\v10.0.0.1"}},
		{"comments start in the first column", "#search a\n;search b\n #search c\n", "servers [127.0.0.1 ::1], edns0", nil},
		{"NUL is a character", "nameserver 10.0.0.1\nsearch a\x00b\n", `servers [10.0.0.1], search ["a\x00b"], edns0`, nil},
		{"a line of 64 KiB ends the file", "nameserver 10.0.0.1\n" + strings.Repeat("x", 1<<16) + "\nsearch a\n",
			"servers [10.0.0.1], edns0", []string{"2 buffer full: 67 bytes"}},

		{"addresses in the usual form only", "nameserver 127.1\nnameserver 010.0.0.1\nnameserver fe80::1%lo\n",
			"servers [fe80::1%lo], edns0", []string{"1 invalid address: 127.1", "2 invalid address: 010.0.0.1"}},
		{"a fourth server", "nameserver 10.0.0.1\nnameserver 10.0.0.2 x\nnameserver 10.0.0.3\n" +
			"nameserver 10.0.0.4\n", "servers [10.0.0.1 10.0.0.2 10.0.0.3], edns0",
			[]string{"2 trailing text: x", "4 too many servers: 10.0.0.4"}},
		{"nameserver alone", "nameserver 10.0.0.1\nnameserver\n", "servers [10.0.0.1], edns0", []string{"2 no value: nameserver"}},

		{"the last search line wins", "nameserver 10.0.0.1\nsearch a\nsearch b .\n",
			`servers [10.0.0.1], search ["b"], edns0`, []string{"2 replaced: a (replaced by line 3)", "3 root domain: ."}},
		{"an empty search line clears the list", "nameserver 10.0.0.1\nsearch a\nsearch\n",
			"servers [10.0.0.1], edns0", []string{"2 replaced: a (replaced by line 3)"}},
		{"domain has one value", "nameserver 10.0.0.1\ndomain a b\ndomain\n",
			`servers [10.0.0.1], search ["a"], edns0`, []string{"2 trailing text: b", "3 no value: domain"}},

		{"numbers", "nameserver 10.0.0.1\noptions ndots:16 timeout:0 attempts:99999999999999999999x\n",
			"servers [10.0.0.1], ndots 15, timeout 1, attempts 16777215, edns0",
			[]string{"2 out of range: ndots:16", "2 out of range: timeout:0", "2 out of range: attempts:99999999999999999999x"}},
		{"no numbers", "nameserver 10.0.0.1\noptions ndots:-1 timeout:x ndots:2\n",
			"servers [10.0.0.1], ndots 2, timeout 1, edns0",
			[]string{"2 no number: ndots:-1", "2 no number: timeout:x", "2 replaced: ndots:-1 (replaced by line 2)"}},
		{"flags", "nameserver 10.0.0.1\noptions rotate use-vc trust-ad no-reload single-request-reopen edns0\n",
			"servers [10.0.0.1], rotate, edns0, single-request, no-reload, use-vc, trust-ad", nil},
		{"flags are exact", "nameserver 10.0.0.1\noptions rotated no-aaaa\n", "servers [10.0.0.1], edns0",
			[]string{"2 unknown option: rotated", "2 unknown option: no-aaaa"}},
	})
}
