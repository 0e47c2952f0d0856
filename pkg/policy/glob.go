// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "strings"

// glob is a pattern in lower case, cut at its stars: each star matches any text, dots included,
// or none.
type glob []string

// maxGlob is the length of the longest pattern, that of a domain.
const maxGlob = MaxDomain

// parseGlob parses a pattern of the letters, digits and punctuation of domains, and stars.
func parseGlob(s string) (g glob, problem string) {
	switch {
	case s == "":
		return nil, "is empty"
	case len(s) > maxGlob:
		return nil, "is longer than a domain"
	case strings.Contains(s, "**"):
		return nil, "has two stars in a row, one matches any text"
	case strings.ContainsFunc(s, func(r rune) bool { return !isGlobRune(r) }):
		return nil, "has a character other than letters, digits, '-', '_', '.' and '*'"
	}
	return strings.Split(normalize(s), "*"), ""
}

func isGlobRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.*", r)
}

// normalize returns a domain in lower case and without its final dot.
func normalize(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

// match reports whether g matches a normalized text. It takes time in proportion to the text
// for each part of g, at most.
func (g glob) match(s string) bool {
	first, last := g[0], g[len(g)-1]
	if len(g) == 1 {
		return s == first
	}
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range g[1 : len(g)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// matchAny reports whether one of globs matches the normalized text.
func matchAny(globs []glob, s string) bool {
	for _, g := range globs {
		if g.match(s) {
			return true
		}
	}
	return false
}
