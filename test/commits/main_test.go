// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const body = "\n\nThe reason."
	long := "pkg/policy: " + strings.Repeat("x", maxSubject-len("pkg/policy: "))
	tests := []struct {
		name, message string
		want          string // in the error; "": no error
	}{
		{"one package", "pkg/policy: limit the searches" + body, ""},
		{"several", "docs, README.md, .ci: name the limit" + body, ""},
		{"longest subject", long + body, ""},
		{"too long", long + "x" + body, "73 characters"},
		{"characters, not bytes", strings.TrimSuffix(long, "x") + "é" + body, ""},
		{"no package", "limit the searches" + body, "want a subject such as"},
		{"no space", "pkg/policy:limit the searches" + body, "want a subject such as"},
		{"fixup", "fixup! pkg/policy: limit the searches" + body, "squash it"},
		{"squash", "squash! pkg/policy: limit the searches" + body, "squash it"},
		{"no body", "pkg/policy: limit the searches", "want a body"},
		{"no empty line", "pkg/policy: limit the searches\nThe reason.", "want an empty line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := commit{hash: "0123456789", parents: 1, message: tt.message}.check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if err := (commit{parents: 2, message: "Merge branch 'x'"}).check(); err != nil {
		t.Errorf("merge commit: %v", err)
	}
}

func TestParseCommit(t *testing.T) {
	const object = "tree 1\nparent 2\nparent 3\nauthor A <a@example.com> 1 +0000\n\nsubject\n\nparent 4 in the body\n"
	want := commit{hash: "h", parents: 2, message: "subject\n\nparent 4 in the body"}
	if got := parseCommit("h", object); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
