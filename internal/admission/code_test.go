// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func TestCheckCode(t *testing.T) {
	for code, want := range map[string]string{
		"musl-search-line":         "<nil>",
		"service-missing":          "<nil>",
		"musl-serch-line":          `unknown code "musl-serch-line": did you mean musl-search-line?`,
		"Musl-Search-Line":         `unknown code "Musl-Search-Line": did you mean musl-search-line?`,
		" old-glibc-search":        `unknown code " old-glibc-search": did you mean old-glibc-search?`,
		"musl":                     `unknown code "musl": docs/checks.md lists the codes`,
		"":                         `unknown code "": docs/checks.md lists the codes`,
		strings.Repeat("x", 1<<20): `unknown code "` + strings.Repeat("x", 70) + `...": docs/checks.md lists the codes`,
	} {
		err := admission.CheckCode(code)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%.80q: %s, want %s", code, got, want)
		}
	}
}

// ofNode are the codes of findings about a node. docs/checks.md is about objects.
var ofNode = []policy.Code{
	policy.CodeHostFileNotNeeded, policy.CodeHostFileRefused, policy.CodeIgnoredHostLine, policy.CodeInvalidClusterDNS,
	policy.CodeMissingClusterDNS, policy.CodeMisspelledField, policy.CodeNodeHostFile, policy.CodeNodeMissingDNS,
	policy.CodeUplinkUnusable, policy.CodeUplinkUsed,
}

// TestCodes: every constant of the type policy.Code is among the codes, once, and has a row in docs/checks.md.
func TestCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	var declared []policy.Code
	constant := regexp.MustCompile(`(?m)^\tCode\w+ +(?:policy\.)?Code += "([^"]+)"`)
	for _, pattern := range []string{"*.go", "../../pkg/policy/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range constant.FindAllSubmatch(text, -1) {
				declared = append(declared, policy.Code(m[1]))
			}
		}
	}
	got := admission.Codes()
	slices.Sort(declared)
	slices.Sort(got)
	if !slices.Equal(got, declared) || len(got) < 60 {
		t.Errorf("Codes has\n%q\nthe sources declare\n%q", got, declared)
	}
	for _, code := range got {
		if !slices.Contains(ofNode, code) && !bytes.Contains(page, []byte("| `"+code+"` |")) {
			t.Errorf("docs/checks.md has no row for %s", code)
		}
	}
}
