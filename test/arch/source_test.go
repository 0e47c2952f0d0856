// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of files and functions, in lines.
const (
	maxFile     = 450
	maxFunction = 80
)

const licence = "// Copyright The dnsconfigurer Authors\n// SPDX-License-Identifier: Apache-2.0\n\n"

// source is a Go file of any module in the repository.
type source struct {
	name string
	text []byte
	file *ast.File
	pos  *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2):
			return fs.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		s := source{name: strings.TrimPrefix(path, "../../"), pos: token.NewFileSet()}
		if s.text, err = os.ReadFile(path); err != nil {
			return err
		}
		s.file, err = parser.ParseFile(s.pos, path, s.text, parser.ParseComments)
		list = append(list, s)
		return err
	})
	if err != nil || len(list) < 30 {
		t.Fatalf("found %d files, %v", len(list), err)
	}
	return list
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) lines(n ast.Node) int {
	return s.pos.Position(n.End()).Line - s.pos.Position(n.Pos()).Line + 1
}

func TestHeaders(t *testing.T) {
	for _, s := range sources(t) {
		text := s.text
		if constraint, rest, ok := bytes.Cut(text, []byte("\n\n")); ok && bytes.HasPrefix(constraint, []byte("//go:build")) {
			text = rest
		}
		if !bytes.HasPrefix(text, []byte(licence)) {
			t.Errorf("%s does not begin with the licence", s.name)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > maxFile && !s.isTest() {
			t.Errorf("%s has %d lines, the limit is %d: split it by concept", s.name, n, maxFile)
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.isTest() && s.lines(f) > maxFunction {
				t.Errorf("%s: %s has %d lines, the limit is %d", s.name, f.Name.Name, s.lines(f), maxFunction)
			}
		}
	}
}

// TestNoHiddenWork forbids init functions, blank imports, and package variables that are
// not tables, errors or embedded files.
func TestNoHiddenWork(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, i := range s.file.Imports {
			if i.Name != nil && i.Name.Name == "_" {
				t.Errorf("%s imports %s for its side effects", s.name, i.Path.Value)
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s has an init function", s.name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && !writtenOnce(v) {
						t.Errorf("%s: variable %s is neither a table, an error nor embedded files", s.name, v.Names[0].Name)
					}
				}
			}
		}
	}
}

// writtenOnce reports whether v is a table, an error or embedded files.
func writtenOnce(v *ast.ValueSpec) bool {
	if t, ok := v.Type.(*ast.SelectorExpr); ok && t.Sel.Name == "FS" {
		return true
	}
	return len(v.Values) > 0 && !slices.ContainsFunc(v.Values, func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.CompositeLit:
			return false
		case *ast.CallExpr:
			f, ok := e.Fun.(*ast.SelectorExpr)
			return !ok || f.Sel.Name != "New" && f.Sel.Name != "Error" && f.Sel.Name != "MustCompile"
		default:
			return true
		}
	})
}

// visible reports whether other packages can call d: a function, or a method of an
// exported type.
func visible(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}

// TestExportedIsDocumented checks that exported identifiers have comments.
func TestExportedIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !strings.HasPrefix(s.name, "pkg/") && !strings.HasPrefix(s.name, "internal/") && !strings.HasPrefix(s.name, "api/") {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				wellKnown := d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String"}, d.Name.Name)
				if d.Name.IsExported() && d.Doc == nil && !wellKnown && visible(d) {
					t.Errorf("%s: %s has no comment", s.name, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: %s has no comment", s.name, ts.Name.Name)
					}
					if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].IsExported() && d.Doc == nil && v.Doc == nil && v.Comment == nil {
						t.Errorf("%s: %s has no comment", s.name, v.Names[0].Name)
					}
				}
			}
		}
	}
}
