// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const module = "github.com/dnsconfigurer/dnsconfigurer"

// values are the packages for pure computation: no files, no clock, no network, no
// locks, no log.
var values = []string{"bytes", "errors", "fmt", "io", "maps", "net/netip", "slices", "strconv", "strings", "unicode", "unicode/utf8"}

// allowedImports returns the rows of testdata/imports.txt.
func allowedImports(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/imports.txt"))(t)
	rows, name := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case line[0] == ' ':
			rows[name] = append(rows[name], words...)
		default:
			name = strings.TrimSuffix(words[0], ":")
			rows[name] = words[1:]
		}
	}
	return rows
}

// pkg is a package in the output of `go list -json`.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// goList runs `go list` for Linux, so that the table holds on every platform.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return string(out)
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	var list []pkg
	out := goList(t, "-json=ImportPath,Dir,Doc,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImports(t *testing.T) {
	rows := allowedImports(t)
	for _, p := range listPackages(t) {
		allowed, listed := rows[p.name()]
		if !listed {
			t.Errorf("%s has no row in the table of imports", p.name())
		}
		delete(rows, p.name())
		for _, problem := range compareImports(allowed, p.Imports) {
			t.Errorf("%s: %s", p.name(), problem)
		}
	}
	for row := range rows {
		t.Errorf("the table of imports has a row for %s, which does not exist", row)
	}
}

// compareImports returns the imports without an entry, and the entries without an
// import.
func compareImports(allowed, imported []string) (problems []string) {
	used := map[string]bool{}
	for _, i := range imported {
		i = strings.TrimPrefix(i, module+"/")
		n := slices.IndexFunc(allowed, func(a string) bool { return permits(a, i) })
		if n < 0 {
			problems = append(problems, "imports "+i+", which its row does not allow")
			continue
		}
		used[allowed[n]] = true
	}
	for _, a := range allowed {
		if !used[a] {
			problems = append(problems, "does not use the entry "+a+" of its row")
		}
	}
	return problems
}

func TestCompareImports(t *testing.T) {
	tests := []struct {
		allowed, imported []string
		want              int
	}{
		{[]string{"std", "pkg/fqdn"}, []string{"os", module + "/pkg/fqdn"}, 0},
		{[]string{"std"}, []string{"os", module + "/pkg/fqdn"}, 1},
		{[]string{"std", "pkg/fqdn"}, []string{"os"}, 1},
		{[]string{"std"}, nil, 1},
		{[]string{"values"}, []string{"strings"}, 0},
		{[]string{"values"}, []string{"os"}, 2},
		{[]string{"k8s.io/api/..."}, []string{"k8s.io/api/core/v1"}, 0},
		{[]string{"k8s.io/api/..."}, []string{"k8s.io/apimachinery/pkg/types"}, 2},
		{nil, nil, 0},
	}
	for _, tt := range tests {
		if got := compareImports(tt.allowed, tt.imported); len(got) != tt.want {
			t.Errorf("row %q, imports %q: %q, want %d problems", tt.allowed, tt.imported, got, tt.want)
		}
	}
}

// heavy are packages that cost every server memory, also when they are imported
// indirectly.
var heavy = map[string]string{
	"k8s.io/client-go/kubernetes":        "links the types of all API groups: use internal/cluster",
	"k8s.io/client-go/kubernetes/scheme": "registers the types of all API groups",
	"k8s.io/client-go/tools/record":      "links OpenAPI: send events without it",
}

func TestHeavyPackages(t *testing.T) {
	for p := range strings.Lines(goList(t, "-deps", "./cmd/dnsconfigurer")) {
		if why, ok := heavy[strings.TrimSpace(p)]; ok {
			t.Errorf("the command links %s, which %s", strings.TrimSpace(p), why)
		}
	}
}

func permits(allowed, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	switch tree, isTree := strings.CutSuffix(allowed, "/..."); {
	case allowed == "std":
		inModule := slices.Contains([]string{"pkg", "internal", "api", "cmd", "test"}, first)
		return !strings.Contains(first, ".") && !inModule
	case allowed == "values":
		return slices.Contains(values, imported)
	case isTree:
		return strings.HasPrefix(imported, tree+"/")
	default:
		return allowed == imported
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
		if !slices.Contains(p.GoFiles, "doc.go") && !slices.Contains(p.GoFiles, "main.go") {
			t.Errorf("%s has no doc.go", p.name())
		}
		for _, banned := range []string{"util", "utils", "common", "helpers", "misc", "shared", "base", "types"} {
			if path.Base(p.name()) == banned {
				t.Errorf("%s: %q is not a name of one thing", p.name(), banned)
			}
		}
	}
}
