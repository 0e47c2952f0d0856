// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unsafe tells whether text would break out of its place in a resolv.conf: a
// newline starts a line of the writer's choice, a NUL ends the file for a reader
// in C, and a blank in a domain makes two of it. A blank elsewhere is left alone:
// it spoils that one value only, and a nameserver with a remark behind it works.
func unsafe(k Kind, text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= utf8.RuneSelf { // seldom
			return k == KindSearch && strings.ContainsFunc(text, unicode.IsSpace) || strings.ContainsAny(text, "\n\x00")
		}
	}
	return false
}
