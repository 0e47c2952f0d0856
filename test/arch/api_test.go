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

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "record the exported identifiers as they are")

// promised are the packages of pkg/ whose API is stable within a major version.
var promised = []string{"fqdn", "policy", "resolvconf"}

// TestAPI compares the exported identifiers of the promised packages with those on
// record. A line that is gone or changed breaks importers; a new line is a promise. To
// accept a change, run the test with -update and add a line to CHANGELOG.md.
func TestAPI(t *testing.T) {
	for _, name := range promised {
		t.Run(name, func(t *testing.T) { checkAPI(t, name) })
	}
}

func checkAPI(t *testing.T, name string) {
	record := "testdata/" + name + ".api"
	got := exported(t, module+"/pkg/"+name)
	if *update {
		must.Succeed(t, os.WriteFile(record, []byte(strings.Join(got, "\n")+"\n"), 0o644))
	}
	text := must.Get(os.ReadFile(record))(t)
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("removed or changed: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("added: %s", line)
		}
	}
}

// exported returns the exported identifiers of the package at path, one a line.
func exported(t *testing.T, path string) []string {
	t.Helper()
	loaded, err := packages.Load(
		&packages.Config{Mode: packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedName}, path)
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
				line += " = " + o.Val().ExactString() // the numbers of an enumeration may change
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
