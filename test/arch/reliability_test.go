// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const reliabilityPage = "docs/runbook.md"

// testReference is a package or a test in the last cell of a row of the page.
var testReference = regexp.MustCompile("[a-z0-9]+(?:/[a-z0-9]+)+|`Test[A-Za-z0-9_]+(?:/[a-z0-9_]+)?`")

// TestReliability_Tests: each row about a fault names at least one test, and the tests exist.
func TestReliability_Tests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../..", reliabilityPage))
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| fault |")
	rows, _, _ = strings.Cut(rows, "\n\n")
	count := 0
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], "---") || strings.Contains(cells[4], "| test") {
			continue
		}
		count++
		checkReferences(t, cells[0], cells[4])
	}
	if count < 25 {
		t.Errorf("%s has %d rows about faults", reliabilityPage, count)
	}
}

// checkReferences checks the references of a row: packages, each with tests after it.
func checkReferences(t *testing.T, row, references string) {
	t.Helper()
	dir, tests := "", 0
	for _, r := range testReference.FindAllString(references, -1) {
		name, isTest := strings.CutPrefix(r, "`")
		if !isTest {
			dir = r
			continue
		}
		tests++
		name, _, _ = strings.Cut(strings.TrimSuffix(name, "`"), "/")
		if !hasTest(t, dir, name) {
			t.Errorf("%s: %s: package %q has no test %s", reliabilityPage, strings.TrimSpace(row), dir, name)
		}
	}
	if tests == 0 {
		t.Errorf("%s: %s: no test", reliabilityPage, strings.TrimSpace(row))
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
