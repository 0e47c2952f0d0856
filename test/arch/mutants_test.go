// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/token"
	"os"
	"strconv"
	"testing"
)

// TestMutantsApply checks that the mutants of test/cluster still fit the source: each
// text occurs once in its file. test/cluster builds and runs the mutants, which takes
// minutes.
func TestMutantsApply(t *testing.T) {
	const table = "test/cluster/mutants_test.go"
	mutants := 0
	for _, s := range sources(t) {
		if s.name != table {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			row, ok := n.(*ast.CompositeLit)
			if !ok || row.Type != nil || len(row.Elts) != 4 {
				return true
			}
			mutants++
			file, old := stringOf(t, row.Elts[0]), stringOf(t, row.Elts[1])
			text, err := os.ReadFile("../../pkg/" + file)
			if err != nil {
				t.Error(err)
			} else if n := bytes.Count(text, []byte(old)); n != 1 {
				t.Errorf("%s: pkg/%s has %d times %q, want once", table, file, n, old)
			}
			return false
		})
	}
	if mutants < 20 {
		t.Errorf("%s has %d mutants, want at least 20", table, mutants)
	}
}

// stringOf returns the value of a string literal.
func stringOf(t *testing.T, e ast.Expr) string {
	t.Helper()
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		t.Fatalf("%T is not a string literal", e)
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
