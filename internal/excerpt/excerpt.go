// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package excerpt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxMessage is the limit of an event's message: NoteLengthLimit of events.k8s.io/v1 in
	// k8s.io/kubernetes/pkg/apis/core/validation.
	MaxMessage = 1024

	// MaxValue is the limit of one value: the length of the longest domain name.
	MaxValue = 253

	// MaxEntries is the limit of the entries of a list. A pod has at most three nameservers
	// and seldom more than ten search domains or options.
	MaxEntries = 10
)

// maxSuffix is the length of the longest text that Text appends.
const maxSuffix = len("... (9223372036854775807 bytes left out)")

// Text returns s if it has at most limit bytes. If not, it returns the beginning of s, which
// ends at a character boundary, and the number of bytes left out. A character counts as many
// bytes as it has in quotes, so that a log line does not grow when it is quoted. limit must
// be larger than the appended number.
func Text(s string, limit int) string {
	if quotedPrefix(s, limit) == len(s) {
		return s
	}
	n := quotedPrefix(s, limit-maxSuffix)
	return fmt.Sprintf("%s... (%d bytes left out)", s[:n], len(s)-n)
}

// quotedPrefix returns the length of the longest prefix of s that has at most limit bytes in
// quotes. It reads at most limit bytes of s.
func quotedPrefix(s string, limit int) int {
	for n := 0; n < len(s); {
		r, size := utf8.DecodeRuneInString(s[n:])
		if limit -= quotedLen(r, size); limit < 0 {
			return n
		}
		n += size
	}
	return len(s)
}

// quotedLen returns the length in quotes of a character of size bytes, in Go or in JSON.
func quotedLen(r rune, size int) int {
	const short, long = len(`\u0000`), len(`\U00000000`)
	switch {
	case r == '"' || r == '\\':
		return 2
	case r == utf8.RuneError && size == 1:
		return short
	case strconv.IsPrint(r):
		return size
	case r < 1<<16:
		return short
	}
	return long
}

// maxQuoted is the number of characters of the longest text that Quote returns whole. Labels
// and FQDNs at their limits have 63 and 64.
const maxQuoted = 70

// Quote returns s, or its first characters, in quotes. Characters that cannot be printed are
// question marks, except those with an escape in C. The expressions of the admission policies
// quote texts in the same way.
func Quote(s string) string {
	var text strings.Builder
	n := 0
	for i, r := range s {
		if n == maxQuoted {
			text.WriteString("...")
			break
		}
		n++
		if strconv.IsPrint(r) || r >= '\a' && r <= '\r' || r == 0 {
			_, size := utf8.DecodeRuneInString(s[i:])
			text.WriteString(s[i : i+size]) // r is not the byte if that is not UTF-8
		} else {
			text.WriteByte('?')
		}
	}
	return strconv.Quote(text.String())
}

// List returns values for a log line: at most MaxEntries of them with MaxMessage bytes in
// all, each cut to MaxValue bytes, and then the number of the others.
func List(values []string) []string {
	list, length := make([]string, 0, min(len(values), MaxEntries+1)), 0
	for _, v := range values {
		v = Text(v, MaxValue)
		for n := 0; n < len(v); {
			r, size := utf8.DecodeRuneInString(v[n:])
			length += quotedLen(r, size)
			n += size
		}
		if len(list) == MaxEntries || length > MaxMessage {
			return append(list, fmt.Sprintf("and %d more", len(values)-len(list)))
		}
		list = append(list, v)
	}
	return list
}
