// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package excerpt

import (
	"errors"
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

// Unjoin returns the errors that err joins, at any depth. An error that joins no others is
// returned alone.
func Unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Unjoin(e)...)
	}
	return all
}

// Prefix puts "name: " before each of the errors that err joins.
func Prefix(name string, err error) error {
	var errs []error
	for _, e := range Unjoin(err) {
		errs = append(errs, fmt.Errorf("%s: %w", name, e))
	}
	return errors.Join(errs...)
}

// DidYouMean returns the end of an error about a misspelled word: the candidate that Closest returns, with prefix
// before it. "": there is none.
func DidYouMean(word, prefix string, candidates []string) string {
	if closest, ok := Closest(word, candidates); ok {
		return ": did you mean " + prefix + closest + "?"
	}
	return ""
}

// Closest returns the candidate that word is most likely a misspelling of. ok is false if
// none is close: up to two letters may differ, in a word of five letters or fewer one, and in
// one of two letters or fewer only the case. Two letters that have changed places count as
// one.
func Closest(word string, candidates []string) (closest string, ok bool) {
	best := 3
	for _, c := range candidates {
		limit := 2
		switch n := len(c); {
		case n <= 2:
			limit = 0
		case n <= 5:
			limit = 1
		}
		if max(len(word), len(c))-min(len(word), len(c)) > limit {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d <= limit && d < best {
			closest, best, ok = c, d, true
		}
	}
	return closest, ok
}

// distance returns the number of letters that must be inserted, removed, replaced or swapped
// with the next one to turn a into b (optimal string alignment).
func distance(a, b string) int {
	previous, current, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range current {
		current[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := current[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(replaced, current[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], previous[j-1]+1)
			}
		}
		previous, current, next = current, next, previous
	}
	return current[len(b)]
}
