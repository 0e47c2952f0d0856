// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible escapes what a terminal interprets instead of printing it, as in a Go literal:
// control characters, escape sequences and marks that change the direction of text. The author
// of a manifest controls the texts.
func visible(s string) string {
	if !strings.ContainsFunc(s, isInvisible) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case isInvisible(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isInvisible(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
