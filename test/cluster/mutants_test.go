// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// replayed is the number of generated cases for each mutant.
const replayed = 20000

// mutants are possible errors in pkg: a text that occurs once in its file, its
// replacement, and the rule that is then broken.
var mutants = []struct{ file, old, new, breaks string }{
	{"resolvconf/file.go", `len(text) >= MaxFile`, `len(text) > MaxFile`, "H1: the read limit is a byte too high"},
	{"resolvconf/file.go", `keyword, rest := cutField(s)`,
		`s, _, _ = strings.Cut(s, "#"); keyword, rest := cutField(s)`, "H5: # starts a comment anywhere"},
	{"resolvconf/file.go", `case "search":`, `case "search", "domain":`, "H6: domain is a keyword"},
	{"resolvconf/file.go", `p.Searches = p.Searches[:0]`, ``, "H8: search lines add up"},
	{"resolvconf/file.go", `TrimSuffix(domain, ".")`, `TrimRight(domain, ".")`, "H8: all trailing dots are cut"},
	{"resolvconf/file.go", `p.Options[i] = e`, ``, "H9: the first value of an option wins"},
	{"policy/base.go", `policy == ClusterFirst && pod.HostNetwork`, `policy == ClusterFirst && pod.Windows`,
		"P1: ClusterFirst gives the cluster's DNS on the host's network"},
	{"policy/base.go", `d.add(Entry{e.svcDomain, KindSearch, ruleClusterDomain, domain})`, ``, "P3: the svc domain is missing"},
	{"policy/base.go", `d.dedupe(KindSearch, MaxSearches)`, ``, "P3: the host repeats the cluster's domains"},
	{"policy/base.go", `ip.Unmap().Is6()`, `ip.Is6()`, "P5: IPv4 in IPv6 counts as IPv6"},
	{"policy/merge.go", `d.dedupe(KindNameserver, MaxNameservers)`, ``, "M1: servers repeat"},
	{"policy/merge.go", "\td.addStep(ruleMerge)",
		"\tif len(config.Nameservers)+len(config.Searches)+len(config.Options) == 0 {\n\t\treturn\n" +
			"\t}\n\td.addStep(ruleMerge)", "M3: an empty dnsConfig does nothing"},
	{"policy/merge.go", `keys.add(name)`, ``, "M4: an option repeats"},
	{"policy/merge.go", `o.Text = key`, `_ = key`, "M4: an empty value keeps its colon"},
	{"policy/merge.go", `case !d.omitsUnsafe(e):`, `case !isUnsafe(e.Kind, e.Text):`,
		"D3: the kubelet's options are filtered before they override"},
	{"policy/rule.go", `if d.kubelet || `, `if `, "D3: the kubelet's values are filtered"},
	{"policy/rule.go", `d.kubelet || !isUnsafe(e.Kind, e.Text)`, `true`, "D3: values break out of their line"},
	{"policy/engine.go", `pod.Override = ""`, ``, "D6: a kubelet reads the annotation"},
	{"policy/merge.go", `MaxNameservers = 3`, `MaxNameservers = 4`, "L1: four servers"},
	{"policy/merge.go", `len(s.Text) > MaxDomain`, `len(s.Text) >= MaxDomain`, "L2: 253 bytes are too long"},
	{"policy/merge.go", `length > MaxSearchLine; n--`, `length >= MaxSearchLine; n--`, "L2: 2048 bytes are too long"},
	{
		"policy/merge.go", `d.truncate(&d.Searches, MaxSearches, RuleSearchLimit)`,
		`kept := d.Searches[:0]
		for _, s := range d.Searches {
			if len(s.Text) <= MaxDomain {
				kept = append(kept, s)
			}
		}
		d.Searches = kept
		d.truncate(&d.Searches, min(len(kept), MaxSearches), RuleSearchLimit)`, "L2: long domains are dropped first",
	},
	{"policy/hostname.go", `searches -= 3`, ``, "L4: the cluster's three domains do not count"},
	{"policy/hostname.go", "if pod.HostNetwork {", "if pod.HostNetwork && pod.Windows {", "N1: a host name on the host's network"},
	{"policy/hostname.go", `pod.HostnameOverride != nil || pod.Subdomain == ""`, `pod.Subdomain == ""`,
		"N2: hostnameOverride gets a domain"},
	{"fqdn/name.go", `MaxHostname = 63`, `MaxHostname = 64`, "N4: host names of 64 bytes"},
	{"fqdn/name.go", `"-.")`, `"-")`, "N4: a dot stays at the cut"},
	{"fqdn/name.go", `MaxNodename = 64`, `MaxNodename = 63`, "N6: an FQDN of 64 bytes is too long"},
	{"fqdn/name.go", `len(s) > MaxLabel {`, `len(s) >= MaxLabel {`, "N7: a label of 63 bytes is too long"},
}

// TestMutants builds each mutant and compares it with recorded answers of the kubelet,
// which must differ. Without a mutant all answers must be equal.
func TestMutants(t *testing.T) {
	recorded := record(t)
	program := build(t, t.TempDir(), nil)
	checkSmall(t, program)
	if difference := replay(t, program, recorded); difference != "" {
		t.Fatalf("without a mutant: %s", difference)
	}
	for _, m := range mutants {
		t.Run(m.breaks, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := must.Get(filepath.Abs(filepath.Join("../../pkg", m.file)))(t)
			text := must.Get(os.ReadFile(path))(t)
			if n := strings.Count(string(text), m.old); n != 1 {
				t.Fatalf("%s has %d times %q, want once", m.file, n, m.old)
			}
			mutated := filepath.Join(dir, "mutated.go")
			must.Succeed(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
			difference := replay(t, build(t, dir, map[string]string{path: mutated}), recorded)
			if difference == "" {
				t.Error("not caught")
			}
			t.Logf("caught by %.200s", difference)
		})
	}
}

// record writes cases with the kubelet's answers to a file.
func record(t *testing.T) string {
	t.Helper()
	list := slices.Collect(cases.Generate(0, replayed))
	kubelet, want, names := askTwins(t, list)
	path := filepath.Join(memoryDir(t), "cases.ndjson")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	lines := json.NewEncoder(f)
	for i := range list {
		if !utf8.ValidString(list[i].HostResolvConf) {
			continue // cannot be written as JSON
		}
		list[i].Expected = &want[i]
		if len(names[i]) > 0 {
			list[i].Kubelet = &kubelet[i]
		}
		must.Succeed(t, lines.Encode(list[i]))
	}
	return path
}

// build builds the replay program with some files of pkg replaced by others.
func build(t *testing.T, dir string, replaced map[string]string) string {
	t.Helper()
	overlay := must.Get(json.Marshal(map[string]any{"Replace": replaced}))(t)
	overlayPath, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "replay")
	must.Succeed(t, os.WriteFile(overlayPath, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayPath, "-o", program, "./cmd/replay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return program
}

// checkSmall fails if program links the kubelet: each mutant would then take long
// to build.
func checkSmall(t *testing.T, program string) {
	t.Helper()
	info := must.Get(buildinfo.ReadFile(program))(t)
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			t.Error("cmd/replay links the kubelet")
		}
	}
}

// replay runs program and returns the first difference.
func replay(t *testing.T, program, recorded string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, recorded).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return strings.TrimSpace(string(out))
	}
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return ""
}
