// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const dependenciesFile = "../../docs/architecture.md"

// TestDependencies checks that docs/architecture.md lists the direct modules of go.mod,
// each in the section that fits who imports it.
func TestDependencies(t *testing.T) {
	page := must.Get(os.ReadFile(dependenciesFile))(t)
	inBinary, inTests := firstColumn(string(page), "In the binary"), firstColumn(string(page), "In tests only")
	direct := directModules(t)
	if len(inBinary) == 0 || len(inTests) == 0 || len(direct) == 0 {
		t.Fatalf("%d modules in the binary, %d in tests only, %d in go.mod", len(inBinary), len(inTests), len(direct))
	}
	product := map[string]bool{}
	for _, p := range listPackages(t) {
		if strings.HasPrefix(p.name(), "test/") {
			continue
		}
		for _, imported := range p.Imports {
			product[moduleOf(direct, imported)] = true
		}
	}
	for _, m := range direct {
		want, other := inTests, inBinary
		if product[m] {
			want, other = inBinary, inTests
		}
		if !slices.Contains(want, m) || slices.Contains(other, m) {
			t.Errorf("docs/architecture.md must list %s once (imported by the product: %v)", m, product[m])
		}
	}
	for _, m := range slices.Concat(inBinary, inTests) {
		if !slices.Contains(direct, m) {
			t.Errorf("docs/architecture.md lists %s, which go.mod does not require directly", m)
		}
	}
}

// firstColumn returns the first cells of the first table below a heading.
func firstColumn(page, heading string) (cells []string) {
	_, section, _ := strings.Cut(page, "\n### "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	for line := range strings.Lines(section) {
		columns := strings.Split(line, "|")
		if len(columns) < 3 || strings.Trim(columns[1], "- ") == "" || strings.TrimSpace(columns[1]) == "module" {
			continue
		}
		cells = append(cells, strings.TrimSpace(columns[1]))
	}
	return cells
}

func directModules(t *testing.T) (paths []string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	must.Succeed(t, json.Unmarshal(out, &mod))
	for _, r := range mod.Require {
		if !r.Indirect {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// moduleOf returns the module of paths that has the package, the longest if several
// match, and "" without one.
func moduleOf(paths []string, pkg string) (longest string) {
	for _, m := range paths {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(longest) {
			longest = m
		}
	}
	return longest
}

// TestReleasedVersion checks that manifests, examples and documentation name the last
// release of CHANGELOG.md, so that it is the one place to change.
func TestReleasedVersion(t *testing.T) {
	changelog := must.Get(os.ReadFile("../../CHANGELOG.md"))(t)
	released := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$`).FindSubmatch(changelog)
	if released == nil {
		t.Fatal("CHANGELOG.md has no heading of a release, such as ## [0.1.0] - 2026-11-22")
	}
	want := "dnsconfigurer:v" + string(released[1])
	image := regexp.MustCompile(`dnsconfigurer:v\d+\.\d+\.\d+`)
	found := map[string]bool{}
	texts := documents(t)
	for _, s := range sources(t) {
		texts = append(texts, text{s.name, 1, string(s.text)})
	}
	for _, d := range texts {
		for _, name := range image.FindAllString(d.text, -1) {
			found[d.file] = true
			if name != want {
				t.Errorf("%s names the image %s, want %s", d.file, name, want)
			}
		}
	}
	if len(found) < 5 {
		t.Errorf("only %v name an image", slices.Sorted(maps.Keys(found)))
	}
}
