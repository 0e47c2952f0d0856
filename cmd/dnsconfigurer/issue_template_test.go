// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestIssueTemplates: the front matter of each template has what GitHub needs to offer it, and the
// commands and files that it names exist.
func TestIssueTemplates(t *testing.T) {
	paths, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, body, found := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
		var front struct{ Name, About string }
		if err := yaml.UnmarshalStrict([]byte(head), &front); !found || err != nil || front.Name == "" || front.About == "" {
			t.Errorf("%s: front matter %+v, %v, want name and about", path, front, err)
		}
		if !strings.HasSuffix(path, ".md") || !strings.Contains(body, "\n**") {
			t.Errorf("%s: want Markdown with headings in bold", path)
		}
		for _, quoted := range regexp.MustCompile(`"(dnsconfigurer [^"]+)"`).FindAllStringSubmatch(body, -1) {
			commands += checkCommandLines(t, path, quoted[1])
		}
		for _, file := range regexp.MustCompile(`[\w./-]+\.md\b`).FindAllString(body, -1) {
			if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if len(paths) < 2 || commands < 3 {
		t.Errorf("%d templates, %d command lines", len(paths), commands)
	}
}
