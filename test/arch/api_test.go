// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"flag"
	"fmt"
	"go/constant"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "accept the public interface as it is")

// TestAPI compares the public interface of pkg/policy with the one on record. A
// line that is gone or changed breaks those who import the package; a new one is a
// promise. Both are made on purpose: -update, and a line in CHANGELOG.md.
func TestAPI(t *testing.T) {
	const record = "testdata/policy.api"
	got := surface(t, module+"/pkg/policy")
	if *update {
		if err := os.WriteFile(record, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("broken for those who use it: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("new: %s", line)
		}
	}
}

// surface lists what path exports, a line an identifier.
func surface(t *testing.T, path string) []string {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedName}, path)
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatalf("loading %s: %v, %v", path, err, loaded)
	}
	p := loaded[0].Types
	short := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}
	var lines []string
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			line := fmt.Sprintf("const %s %s", name, types.TypeString(o.Type(), short))
			if _, enum := o.Type().(*types.Named); !enum || o.Val().Kind() == constant.String {
				line += " = " + o.Val().ExactString() // the numbers of an enum are nobody's business
			}
			lines = append(lines, line)
		case *types.TypeName:
			lines = append(lines, typeLines(o, short)...)
		default:
			lines = append(lines, types.ObjectString(o, short))
		}
	}
	return lines
}

func typeLines(o *types.TypeName, short types.Qualifier) []string {
	lines := []string{fmt.Sprintf("type %s %s", o.Name(), kind(o.Type().Underlying(), short))}
	if s, ok := o.Type().Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("field %s.%s %s", o.Name(), f.Name(), types.TypeString(f.Type(), short)))
			}
		}
	}
	for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
		if m.Obj().Exported() {
			lines = append(lines, types.ObjectString(m.Obj(), short))
		}
	}
	return lines
}

func kind(t types.Type, short types.Qualifier) string {
	if _, ok := t.(*types.Struct); ok {
		return "struct"
	}
	return types.TypeString(t, short)
}
