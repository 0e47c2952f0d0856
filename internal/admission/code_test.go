// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestCheckCodes(t *testing.T) {
	for code, want := range map[string]string{
		"musl-search-line":         "<nil>",
		"service-missing":          "<nil>",
		"musl-serch-line":          `unknown code "musl-serch-line": did you mean musl-search-line?`,
		"Musl-Search-Line":         `unknown code "Musl-Search-Line": did you mean musl-search-line?`,
		" old-glibc-search":        `unknown code " old-glibc-search": did you mean old-glibc-search?`,
		"musl":                     `unknown code "musl": see dnsconfigurer rules`,
		"":                         `unknown code "": see dnsconfigurer rules`,
		strings.Repeat("x", 1<<20): `unknown code "` + strings.Repeat("x", 70) + `...": see dnsconfigurer rules`,
	} {
		err := admission.CheckCodes(code)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%.80q: %s, want %s", code, got, want)
		}
	}
}

// TestCodeDocs: every constant of the type policy.Code has one rule, and docs/checks.md has the rules.
func TestCodeDocs(t *testing.T) {
	page, err1 := os.ReadFile("../../docs/checks.md")
	rules, err2 := os.ReadFile("rules.md")
	must.Succeed(t, errors.Join(err1, err2))
	if !bytes.Contains(page, rules) {
		t.Error("the tables of docs/checks.md are not those of rules.md")
	}
	var declared []policy.Code
	constant := regexp.MustCompile(`(?m)^\tCode\w+ +(?:policy\.)?Code += "([^"]+)"`)
	for _, pattern := range []string{"*.go", "../../pkg/policy/*.go"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			for _, m := range constant.FindAllSubmatch(text, -1) {
				declared = append(declared, policy.Code(m[1]))
			}
		}
	}
	var got []policy.Code
	for _, r := range admission.CodeDocs() {
		got = append(got, r.Code)
		if r.Severity == "" || r.EnforcedBy == "" || r.Text == "" || strings.ContainsAny(r.Text, "|[]") {
			t.Errorf("%+v", r)
		}
	}
	slices.Sort(declared)
	slices.Sort(got)
	if !slices.Equal(got, declared) || len(got) < 60 {
		t.Errorf("the rules have the codes\n%q\nthe sources declare\n%q", got, declared)
	}
}
