// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isUnsafe reports whether text would break out of its place in a resolv.conf. A newline
// starts another line, a NUL ends the file for a reader in C, and a space inside a domain
// makes two domains of it. A space elsewhere is safe: it spoils only its own value, and a
// nameserver followed by a comment works.
func isUnsafe(k Kind, text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= utf8.RuneSelf { // rare
			return k == KindSearch && strings.ContainsFunc(text, unicode.IsSpace) || strings.ContainsAny(text, "\n\x00")
		}
	}
	return false
}

// withoutUnsafe returns a copy of values without the unsafe ones.
func withoutUnsafe(values []string, k Kind) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return isUnsafe(k, v) })
}
