// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	rulesFile     = "monitoring/rules.yaml"
	dashboardFile = "monitoring/dashboard.json"
)

type alertingRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) (rules []alertingRule) {
	t.Helper()
	text := must.Get(os.ReadFile(rulesFile))(t)
	var file struct {
		Groups []struct{ Rules []alertingRule }
	}
	must.Succeed(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// readQueries returns the queries of the dashboard by the title of their panel.
func readQueries(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile(dashboardFile))(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.Succeed(t, json.Unmarshal(text, &dashboard))
	queries := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], target.Expr)
		}
	}
	return queries
}

// promtool runs Prometheus' own checks.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	debian.Install(t, "promtool", "prometheus")
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestMonitoring_Rules(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	promtool(t, "test", "rules", "monitoring/tests.yaml")
}

// TestMonitoring_EachAlert checks that each alert has a unit test and a section of the runbook,
// and that no section is about another alert.
func TestMonitoring_EachAlert(t *testing.T) {
	runbook := must.Get(os.ReadFile("../docs/runbook.md"))(t)
	tests := must.Get(os.ReadFile("monitoring/tests.yaml"))(t)
	var alerts, sections []string
	for _, r := range readRules(t) {
		alerts = append(alerts, r.Alert)
		if !strings.Contains(string(tests), "- name: "+r.Alert+"\n") {
			t.Errorf("%s has no test in monitoring/tests.yaml", r.Alert)
		}
		if want := "/docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("%s: runbook_url %q, want %s at its end", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
	}
	ofAlerts, _, _ := strings.Cut(string(runbook), "\n## Reliability\n")
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(ofAlerts, -1) {
		sections = append(sections, m[1])
	}
	slices.Sort(alerts)
	slices.Sort(sections)
	if !slices.Equal(alerts, sections) {
		t.Errorf("alerts %q, sections of docs/runbook.md %q", alerts, sections)
	}
}

// TestMonitoring_Dashboard checks the syntax of the dashboard's queries.
func TestMonitoring_Dashboard(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, queries := range readQueries(t) {
		for _, q := range queries {
			n++
			q = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*").Replace(q)
			fmt.Fprintf(&rules, "  - {record: 'panel:%d', expr: %q}\n", n, q)
		}
	}
	if n < 20 {
		t.Fatalf("%d queries", n)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(rules.String()), 0o644))
	promtool(t, "check", "rules", file)
}

// exportedMetrics returns the labels of the servers' metrics, by name: those of the records that
// the tests of the DNS servers compare with real processes, and those that the source of shim,
// agent and webhook registers.
func exportedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, record := range []string{"dns.metrics", "nodecache.metrics"} {
		text := must.Get(os.ReadFile(filepath.Join("../cmd/dnsconfigurer/testdata", record)))(t)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			found[words[0]] = words[2:] // words[1] is the type
		}
	}
	metrics := []*regexp.Regexp{
		regexp.MustCompile(`(?s)\bName:\s+"(dnsconfigurer_\w+)".*?\n\t*\}(?:, \[\]string\{([^}]*)\})?`),
		regexp.MustCompile(`daemon\.NewCounterVec\(\w+, "(dnsconfigurer_\w+)",\s+"[^"]*",\s+"(\w+)"`),
		regexp.MustCompile(`\bgauge\("(dnsconfigurer_\w+)"()`), // without labels
	}
	for _, pattern := range []string{
		"../pkg/cri/*.go", "../internal/shim/*.go", "../internal/node/*.go", "../internal/daemon/*.go",
		"../internal/admission/*/*.go",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			for _, metric := range metrics {
				for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
					if found[m[1]] == nil {
						found[m[1]] = strings.Split(strings.ReplaceAll(m[2], `"`, ""), ", ")
					}
				}
			}
		}
	}
	return found
}

// TestMonitoring_Metrics checks that alerts and panels use metrics and labels that exist.
func TestMonitoring_Metrics(t *testing.T) {
	exported := exportedMetrics(t)
	if len(exported) < 25 {
		t.Fatalf("%d metrics found", len(exported))
	}
	expressions := map[string][]string{}
	for _, r := range readRules(t) {
		expressions[r.Alert] = []string{r.Expr}
	}
	for title, queries := range readQueries(t) {
		expressions[title] = queries
	}
	selector := regexp.MustCompile(`\b(dnsconfigurer_\w+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`(\w+)\s*(?:=|!=|=~|!~)"`)
	used := 0
	for where, list := range expressions {
		for _, m := range selector.FindAllStringSubmatch(strings.Join(list, "\n"), -1) {
			used++
			name := m[1]
			labels, found := exported[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if histogram, ok := strings.CutSuffix(name, suffix); ok && !found {
					labels, found = exported[histogram]
				}
			}
			if !found {
				t.Errorf("%s: no server exports %s", where, name)
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if l[1] != "job" && !slices.Contains(labels, l[1]) {
					t.Errorf("%s: %s has the labels %q, not %s", where, name, labels, l[1])
				}
			}
		}
	}
	if used < 40 {
		t.Errorf("%d uses of metrics", used)
	}
}
