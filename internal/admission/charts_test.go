// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// releases are typical names of releases, and their namespaces.
var releases = []struct{ Name, Namespace string }{
	{"cart", "shop"},
	{"kube-prometheus-stack", "monitoring"},
	{"pr-1234-checkout-redesign-by-team", "review-apps"},
	{"my-release-with-a-name-from-a-pipeline", "team-payments-production-eu"},
}

// chart is a manifest of a shape with one release name and one DNS setting.
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

// TestCheck_Charts: common charts have no errors, and no warnings except those for which
// testdata/charts.txtar gives a reason.
func TestCheck_Charts(t *testing.T) {
	all, reasons := charts(t)
	if len(all) < 200 {
		t.Errorf("%d manifests, want at least 200", len(all))
	}
	used := map[string]int{}
	workloads := 0
	for _, host := range []*string{nil,
		new("nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch corp.example\noptions edns0 trust-ad\n")} {
		node := vectors.DefaultNode()
		node.ResolvConf = host
		rules := node.Rules(t)
		for _, c := range all {
			for _, w := range c.workloads(t) {
				workloads++
				c.checkFindings(t, vectors.Check(t, rules, cli.AdmissionObject(w, "")), reasons, used)
			}
		}
	}
	warnings := 0
	for reason := range reasons {
		if used[reason] == 0 {
			t.Errorf("%s has a reason and does not occur", reason)
		}
		warnings += used[reason]
	}
	t.Logf("%d manifests, %d workloads, %d warnings", len(all), workloads, warnings)
}

// checkFindings fails the test for findings without a reason, and counts the others.
func (c chart) checkFindings(t *testing.T, findings []policy.Finding, reasons map[string]bool, used map[string]int) {
	t.Helper()
	for _, f := range findings {
		reason := c.shape + " " + string(f.Code)
		switch {
		case f.Severity == policy.SeverityInfo:
		case f.Severity == policy.SeverityWarning && reasons[reason]:
			used[reason]++
		default:
			t.Errorf("%s as %s with %s: %s %s: %s (%s)", c.shape, c.release, c.setting, f.Severity, f.Field, f.Message, f.Code)
		}
	}
}

// charts combines shapes, releases and settings, and returns the reasons for warnings by
// shape and code. It skips every third combination, a different one for each shape.
func charts(t *testing.T) (all []chart, reasons map[string]bool) {
	t.Helper()
	archive := must.Get(txtar.ParseFile("testdata/charts.txtar"))(t)
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
		all = append(all, combine(t, shape, string(f.Data), settings)...)
	}
	slices.SortFunc(all, func(a, b chart) int { return strings.Compare(a.shape+a.setting, b.shape+b.setting) })
	return all, reasons
}

// combine returns the charts of a shape. Without a place for DNS settings it uses the first,
// empty one.
func combine(t *testing.T, shape, text string, settings []txtar.File) []chart {
	t.Helper()
	if !strings.Contains(text, "{{dns ") {
		settings = settings[:1]
	}
	var all []chart
	for i, s := range settings {
		for j, release := range releases {
			if len(settings) > 1 && (i+j+len(shape))%3 == 0 {
				continue
			}
			setting := execute(t, string(s.Data), nil, release)
			indented := template.FuncMap{"dns": func(n int) string {
				return strings.TrimRight(strings.ReplaceAll("\n"+setting, "\n", "\n"+strings.Repeat(" ", n)), " \n")
			}}
			all = append(all, chart{shape, s.Name, release.Name, []byte(execute(t, text, indented, release))})
		}
	}
	return all
}

func execute(t *testing.T, text string, funcs template.FuncMap, data any) string {
	t.Helper()
	tmpl := must.Get(template.New("").Funcs(funcs).Parse(text))(t)
	var b strings.Builder
	must.Succeed(t, tmpl.Execute(&b, data))
	return b.String()
}
