// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

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
		if problem != "" || g.MatchString(tt.text) != tt.want {
			t.Errorf("%q matches %q: %v %s, want %v", tt.pattern, tt.text, !tt.want, problem, tt.want)
		}
	}
}
