// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strings"
	"testing"
)

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
