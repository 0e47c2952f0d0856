// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlob_Match(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"corp.example", "corp.example", true},
		{"corp.example", "a.corp.example", false},
		{"*.corp.example", "a.corp.example", true},
		{"*.corp.example", "a.b.corp.example", true},
		{"*.corp.example", "corp.example", false},
		{"*", "", true},
		{"*", "a.b", true},
		{"team-*", "team-", true},
		{"ab*ba", "aba", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "acb", false},
		{"CORP.Example.", "corp.example", true},
	} {
		g, problem := parseGlob(tt.pattern)
		if problem != "" || g.match(tt.text) != tt.want {
			t.Errorf("%q matches %q: %v %s, want %v", tt.pattern, tt.text, !tt.want, problem, tt.want)
		}
	}
}

// FuzzGlob compares a pattern with the regular expression of the same meaning.
func FuzzGlob(f *testing.F) {
	f.Add("*.corp.example", "a.corp.example")
	f.Add("a*b*c*", "abcabc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		g, problem := parseGlob(pattern)
		if problem != "" {
			return
		}
		expression := strings.ReplaceAll(regexp.QuoteMeta(normalize(pattern)), `\*`, "(?s:.*)")
		if want := regexp.MustCompile("^" + expression + "$").MatchString(text); g.match(text) != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, text, !want, want)
		}
	})
}
