// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package excerpt

import (
	"errors"
	"fmt"
	"strings"
)

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
