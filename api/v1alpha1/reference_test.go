// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write docs/json.md")

const outputPage = "../../docs/json.md"

const outputIntroduction = `# JSON output

This page lists the fields of the output of commands with ` + "`-o json`" + `.

The output of ` + "`render`, `validate`, `lookup`, `config check`" + ` is JSON Lines: one object on each line,
which ` + "`jq`" + ` reads as it is. ` + "`-o jsonl`" + ` is another name of the format.

It is generated: ` + "`go test ./api/v1alpha1 -run TestOutputReference -update`" + ` writes it from the source
code. The Go types are in [api/v1alpha1](../api/v1alpha1), for programs that read the output.
Fields may be added in every release; none is removed or changes its meaning within v1alpha1.
`

// goTypes are the words of JSON for Go types.
var goTypes = strings.NewReplacer("[]string", "list of strings", "[]", "list of ", "*bool", "boolean",
	"bool", "boolean", "uint64", "number", "int64", "number", "float64", "number", "int", "number")

// TestOutputReference checks that docs/json.md is generated from the comments on the types of
// the output.
func TestOutputReference(t *testing.T) {
	files := must.Get(filepath.Glob("output*.go"))(t)
	var b strings.Builder
	b.WriteString(outputIntroduction)
	for _, name := range files {
		fset := token.NewFileSet()
		file := must.Get(parser.ParseFile(fset, name, nil, parser.ParseComments))(t)
		for _, decl := range file.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				writeType(t, &b, fset, types)
			}
		}
	}
	if *update {
		must.Succeed(t, os.WriteFile(outputPage, []byte(b.String()), 0o644))
	}
	page := must.Get(os.ReadFile(outputPage))(t)
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/json.md is out of date, run this test with -update (-page +generated):\n%s", diff)
	}
}

// writeType writes the section of a struct type.
func writeType(t *testing.T, b *strings.Builder, fset *token.FileSet, decl *ast.GenDecl) {
	t.Helper()
	spec := decl.Specs[0].(*ast.TypeSpec)
	of, ok := spec.Type.(*ast.StructType)
	if !ok || decl.Doc == nil {
		t.Fatalf("%s: a type of the output is a struct with a comment", spec.Name)
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", spec.Name,
		useJSONNames(strings.TrimSpace(decl.Doc.Text()), of))
	for _, f := range of.Fields.List {
		var goType strings.Builder
		must.Succeed(t, printer.Fprint(&goType, fset, f.Type))
		text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		text = strings.TrimPrefix(text, f.Names[0].Name+" is ")
		text = strings.TrimPrefix(text, f.Names[0].Name+" are ")
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", jsonName(f), goTypes.Replace(goType.String()), useJSONNames(text, of))
	}
}

func jsonName(f *ast.Field) string {
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	return name
}

// useJSONNames replaces the Go names of the fields of a struct in a comment.
func useJSONNames(text string, of *ast.StructType) string {
	for _, f := range of.Fields.List {
		word := regexp.MustCompile(`\b` + f.Names[0].Name + `\b`)
		text = word.ReplaceAllString(text, "`"+jsonName(f)+"`")
	}
	return text
}
