// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestArchitecture checks that docs/architecture.md lists every package, and no other.
func TestArchitecture(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/architecture.md"))(t)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`\[([^\]]+)\]\(\.\./((?:api|cmd|internal|pkg)/[^)]+)\)`).FindAllStringSubmatch(string(page), -1) {
		listed[m[2]] = true
		if m[1] != m[2] {
			t.Errorf("docs/architecture.md links %s to %s", m[1], m[2])
		}
	}
	for _, p := range listPackages(t) {
		root, _, _ := strings.Cut(p.name(), "/")
		if root == "test" || root == "deploy" {
			continue
		}
		if !listed[p.name()] {
			t.Errorf("docs/architecture.md does not list %s", p.name())
		}
		delete(listed, p.name())
	}
	for name := range listed {
		t.Errorf("docs/architecture.md lists %s, which is not a package", name)
	}
}

// TestDiagrams checks that each diagram has the labels of the text from which it is drawn.
func TestDiagrams(t *testing.T) {
	texts, err := filepath.Glob("../../docs/diagrams/*.d2")
	if err != nil || len(texts) == 0 {
		t.Fatal(texts, err)
	}
	for _, path := range texts {
		text := must.Get(os.ReadFile(path))(t)
		drawn, err := os.ReadFile(strings.TrimSuffix(path, ".d2") + ".svg")
		if err != nil {
			t.Fatalf("%v: run make diagrams", err)
		}
		for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			for line := range strings.SplitSeq(m[1], `\n`) {
				if !strings.Contains(html.UnescapeString(string(drawn)), line) {
					t.Errorf("%s: the diagram lacks %q: run make diagrams", path, line)
				}
			}
		}
	}
}

// pages returns the documentation by file name, relative to the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, d := range documents(t) {
		if filepath.Ext(d.file) == ".md" {
			all[d.file] = d.text
		}
	}
	return all
}

// TestPages checks that each page starts with a heading and a sentence of purpose, and that
// docs/README.md links to it.
func TestPages(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		if !regexp.MustCompile(`\A# \S.*\n\n[A-Za-z].*\n`).MatchString(text) {
			t.Errorf("%s does not start with a heading and a sentence", name)
		}
		page, ok := strings.CutPrefix(name, "docs/")
		if ok && page != "README.md" && !strings.Contains(all["docs/README.md"], "]("+page+")") {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

// TestLinks checks that links between pages lead to files and headings that exist.
func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for name, text := range all {
		anchors[name] = anchorsOf(text)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat("../../" + target); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			} else if hasAnchor && !anchors[target][anchor] {
				t.Errorf("%s: link to %s: no such heading", name, m[1])
			}
		}
	}
}

// anchorsOf returns the anchors of a page's headings, as the code host makes them.
func anchorsOf(page string) map[string]bool {
	all := map[string]bool{}
	inCode := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
		}
		if heading := strings.TrimLeft(line, "#"); heading != line && !inCode {
			anchor := strings.ToLower(strings.TrimSpace(heading))
			anchor = regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(anchor, "")
			all[strings.ReplaceAll(anchor, " ", "-")] = true
		}
	}
	return all
}

func TestAnchorsOf(t *testing.T) {
	got := anchorsOf("# The `page`\n```\n# code\n```\n## What if: a, b\n")
	if len(got) != 2 || !got["the-page"] || !got["what-if-a-b"] {
		t.Errorf("%v", got)
	}
}
