// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// releases are names as people and pipelines give them, and where they install.
var releases = []struct{ Name, Namespace string }{
	{"cart", "shop"},
	{"kube-prometheus-stack", "monitoring"},
	{"pr-1234-checkout-redesign-by-team", "review-apps"},
	{"my-release-with-a-name-from-a-pipeline", "team-payments-production-eu"},
}

// chart is a shape under one name with one DNS setting.
type chart struct {
	shape, setting, release string
	manifest                []byte
}

func (c chart) workloads(t *testing.T) []kube.Workload {
	t.Helper()
	m, err := kube.ParseManifest(c.shape, c.manifest)
	if err != nil {
		t.Fatalf("%s with %s: %v\n%s", c.shape, c.setting, err, c.manifest)
	}
	return m.Workloads
}

// TestCharts: what people run raises no error, and no warning but those for which
// testdata/charts.txtar gives a reason.
func TestCharts(t *testing.T) {
	all, reasons := charts(t)
	if len(all) < 200 {
		t.Errorf("%d manifests, want 200 at least", len(all))
	}
	used := map[string]bool{}
	pods, warned := 0, 0
	for _, host := range []*string{nil, new("nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch corp.example\noptions edns0 trust-ad\n")} {
		node := vectors.DefaultNode()
		node.ResolvConf = host
		rules := node.Rules(t)
		for _, c := range all {
			for _, w := range c.workloads(t) {
				pods++
				for _, f := range rules.Check(objectOf(w)) {
					reason := c.shape + " " + string(f.Code)
					switch {
					case f.Severity == policy.SeverityInfo:
					case f.Severity == policy.SeverityWarning && reasons[reason]:
						used[reason] = true
						warned++
					default:
						t.Errorf("%s as %s with %s: %s %s: %s (%s)", c.shape, c.release, c.setting, f.Severity, f.Field, f.Message, f.Code)
					}
				}
			}
		}
	}
	for reason := range reasons {
		if !used[reason] {
			t.Errorf("%s is justified, and does not occur", reason)
		}
	}
	t.Logf("%d manifests, %d verdicts on workloads, %d warnings", len(all), pods, warned)
}

// charts composes shapes, names and settings, and returns the justified warnings by
// shape and code. Every third combination is left out, another one for each shape.
func charts(t *testing.T) (all []chart, reasons map[string]bool) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/charts.txtar")
	if err != nil {
		t.Fatal(err)
	}
	reasons = map[string]bool{}
	var settings []txtar.File
	for _, f := range archive.Files {
		shape, isShape := strings.CutPrefix(f.Name, "shape/")
		if !isShape {
			settings = append(settings, f)
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			if warns, ok := strings.CutPrefix(line, "# warns "); ok {
				code, _, _ := strings.Cut(warns, ":")
				reasons[shape+" "+code] = true
			}
		}
		takes := settings
		if !bytes.Contains(f.Data, []byte("{{dns ")) {
			takes = settings[:1]
		}
		for i, s := range takes {
			for j, release := range releases {
				if len(takes) > 1 && (i+j+len(shape))%3 == 0 {
					continue
				}
				setting := execute(t, string(s.Data), nil, release)
				indented := template.FuncMap{"dns": func(n int) string {
					return strings.TrimRight(strings.ReplaceAll("\n"+setting, "\n", "\n"+strings.Repeat(" ", n)), " \n")
				}}
				all = append(all, chart{shape, s.Name, release.Name, []byte(execute(t, string(f.Data), indented, release))})
			}
		}
	}
	slices.SortFunc(all, func(a, b chart) int { return strings.Compare(a.shape+a.setting, b.shape+b.setting) })
	return all, reasons
}

func execute(t *testing.T, text string, funcs template.FuncMap, data any) string {
	t.Helper()
	tmpl, err := template.New("").Funcs(funcs).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
