// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of files, in lines, and of lines, in columns.
const (
	maxFile  = 450
	maxLine  = 140
	tabWidth = 4
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
	}
}

// TestLines checks the length of lines, except of texts that cannot be broken: literals of
// several lines, and the output of examples.
func TestLines(t *testing.T) {
	for _, s := range sources(t) {
		fixed := s.fixedLines()
		number := 0
		for line := range strings.Lines(string(s.text)) {
			number++
			columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) + strings.Count(line, "\t")*(tabWidth-1)
			if columns > maxLine && !fixed[number] {
				t.Errorf("%s:%d has %d columns, the limit is %d", s.name, number, columns, maxLine)
			}
		}
	}
}

// fixedLines returns the lines of literals of several lines, and of the output of examples.
func (s source) fixedLines() map[int]bool {
	fixed := map[int]bool{}
	add := func(n ast.Node) {
		for i := range s.lines(n) {
			fixed[s.pos.Position(n.Pos()).Line+i] = true
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && s.lines(l) > 1 {
			add(l)
		}
		return true
	})
	for _, c := range s.file.Comments {
		if strings.HasPrefix(c.Text(), "Output:") {
			add(c)
		}
	}
	return fixed
}

// TestNoHiddenWork forbids init functions, blank imports, and package variables that are
// not tables, errors or embedded files. Some plugins of CoreDNS export nothing that could be
// referred to instead.
func TestNoHiddenWork(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, i := range s.file.Imports {
			if i.Name != nil && i.Name.Name == "_" && !strings.HasPrefix(i.Path.Value, `"github.com/coredns/coredns/plugin/`) {
				t.Errorf("%s imports %s for its side effects", s.name, i.Path.Value)
			}
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s has an init function", s.name)
			}
		}
		for v, d := range specsOf[*ast.ValueSpec](s.file) {
			if d.Tok == token.VAR && !writtenOnce(v) {
				t.Errorf("%s: variable %s is neither a table, an error nor embedded files", s.name, v.Names[0].Name)
			}
		}
	}
}

// specsOf yields the top-level specifications of one type with their declarations.
func specsOf[T ast.Spec](f *ast.File) iter.Seq2[T, *ast.GenDecl] {
	return func(yield func(T, *ast.GenDecl) bool) {
		for _, d := range f.Decls {
			d, ok := d.(*ast.GenDecl)
			for i := 0; ok && i < len(d.Specs); i++ {
				if spec, isT := d.Specs[i].(T); isT && !yield(spec, d) {
					return
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
		if s.isTest() || !strings.HasPrefix(s.name, "pkg/") && !strings.HasPrefix(s.name, "internal/") &&
			!strings.HasPrefix(s.name, "api/") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && lacksDoc(f) {
				t.Errorf("%s: %s has no comment", s.name, f.Name.Name)
			}
		}
		for spec, d := range specsOf[*ast.TypeSpec](s.file) {
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
				t.Errorf("%s: %s has no comment", s.name, spec.Name.Name)
			}
		}
		for v, d := range specsOf[*ast.ValueSpec](s.file) {
			if v.Names[0].IsExported() && d.Doc == nil && v.Doc == nil && v.Comment == nil {
				t.Errorf("%s: %s has no comment", s.name, v.Names[0].Name)
			}
		}
	}
}

// lacksDoc reports whether f is visible without a comment. Methods with a well-known
// meaning need none.
func lacksDoc(f *ast.FuncDecl) bool {
	wellKnown := f.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String"}, f.Name.Name)
	return f.Name.IsExported() && f.Doc == nil && !wellKnown && visible(f)
}
