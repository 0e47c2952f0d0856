// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func TestCheckCode(t *testing.T) {
	for code, want := range map[string]string{
		"musl-search-line":         "",
		"service-missing":          "",
		"musl-serch-line":          `unknown code "musl-serch-line": did you mean musl-search-line?`,
		"Musl-Search-Line":         `unknown code "Musl-Search-Line": did you mean musl-search-line?`,
		" old-glibc-search":        `unknown code " old-glibc-search": did you mean old-glibc-search?`,
		"musl":                     `unknown code "musl": docs/checks.md lists the codes`,
		"":                         `unknown code "": docs/checks.md lists the codes`,
		strings.Repeat("x", 1<<20): `unknown code "` + strings.Repeat("x", 70) + `...": docs/checks.md lists the codes`,
	} {
		err := admission.CheckCode(code)
		if got := errorText(err); got != want {
			t.Errorf("%.80q: %s, want %s", code, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCodes: every constant of the type policy.Code is among the codes, once.
func TestCodes(t *testing.T) {
	var declared []policy.Code
	for _, dir := range []string{".", "../../pkg/policy"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			declared = append(declared, declaredCodes(t, file)...)
		}
	}
	got := admission.Codes()
	slices.Sort(declared)
	slices.Sort(got)
	if !slices.Equal(got, declared) {
		t.Errorf("Codes has\n%q\nthe sources declare\n%q", got, declared)
	}
}

// declaredCodes returns the values of the constants of type Code in a source file.
func declaredCodes(t *testing.T, file string) (codes []policy.Code) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !isCode(spec.Type) {
			return true
		}
		for _, v := range spec.Values {
			literal, ok := v.(*ast.BasicLit)
			if !ok {
				continue
			}
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, policy.Code(code))
		}
		return true
	})
	return codes
}

// isCode reports whether a type is Code or policy.Code.
func isCode(e ast.Expr) bool {
	if selector, ok := e.(*ast.SelectorExpr); ok {
		e = selector.Sel
	}
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "Code"
}
