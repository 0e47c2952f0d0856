// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestWarnings_Limits covers both sides of the two limits.
func TestWarnings_Limits(t *testing.T) {
	words := strings.Repeat("word ", 23)
	for _, tt := range []struct {
		name string
		in   string
		want []string
	}{
		{"120 characters", words + "words", []string{words + "words"}},
		{"121 characters", words + "words.", []string{strings.TrimSuffix(words, " "), "... words."}},
		{"a long word", strings.Repeat("é", 125), []string{strings.Repeat("é", 120), "... ééééé"}},
		{"a control character", "a\nb\x00", []string{"a?b?"}},
		{"half a character", "é"[:1] + "a", []string{"?a"}},
	} {
		if diff := cmp.Diff(tt.want, warnings([]string{tt.in}, maxReply)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if len(words)+5 != maxWarning {
		t.Error("the first line does not have 120 characters")
	}

	line := func(i int) string { return fmt.Sprintf("%0*d", maxWarning, i) }
	var all []string
	for i := range maxWarnings / maxWarning {
		all = append(all, line(i))
	}
	rest := maxWarnings % maxWarning
	if diff := cmp.Diff(append(all, line(0)[:rest]), warnings(append(all, line(0)[:rest]), maxReply)); diff != "" {
		t.Errorf("4096 characters (-want +got):\n%s", diff)
	}
	got := warnings(append(all, line(0)[:rest+1]), maxReply)
	total := 0
	for _, s := range got {
		total += utf8.RuneCountInString(s)
	}
	if last := got[len(got)-1]; total > maxWarnings || last != "warnings left out: 2; dnsconfigurer validate prints all" {
		t.Errorf("4097 characters: %d, ending with %q", total, last)
	}
}

// TestWarnings_SameEnd: client-go drops a warning that is equal to a previous one.
func TestWarnings_SameEnd(t *testing.T) {
	end := " " + strings.Repeat("b", 110)
	got := warnings([]string{strings.Repeat("1", 20) + end, strings.Repeat("2", 20) + end}, maxReply)
	want := []string{strings.Repeat("1", 20), "..." + end, strings.Repeat("2", 20), "...(2)" + end}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
