// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// objects has a warning about a subdomain, which db-1 ignores, and a Service without pods.
const objects = `apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop}
spec: {subdomain: db, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-1, namespace: shop, annotations: {dnsconfigurer.dev/ignore: service-not-headless}}
spec: {subdomain: db, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {ports: [{port: 1}]}
---
apiVersion: v1
kind: Service
metadata: {name: none, namespace: shop}
spec: {clusterIP: None, selector: {app: none}, ports: [{port: 1}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
`

func TestOptions_Run(t *testing.T) {
	rules, err := admission.New(policy.Node{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text, failOn string
		ignore             []string
		passed             bool
		codes              []string // in the output, in order
		summary            string
	}{
		{"warnings", objects, "error", nil, true, []string{"service-not-headless", "selector-matches-nothing"},
			"4 objects checked, 1 not checked (ConfigMap), 0 errors, 2 warnings, 1 ignored"},
		{"warnings fail", objects, "warning", nil, false, []string{"service-not-headless", "selector-matches-nothing"},
			"4 objects checked, 1 not checked (ConfigMap), 0 errors, 2 warnings, 1 ignored"},
		{"ignored codes", objects, "warning", []string{"service-not-headless", "selector-matches-nothing"}, true, nil,
			"4 objects checked, 1 not checked (ConfigMap), 0 errors, 0 warnings, 3 ignored"},
		{"an unreadable document", "kind: Pod\n---\nkind: [\n", "error", nil, false, nil, "0 objects checked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "objects.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			o := cli.ValidateOptions{
				Input: manifest.Input{Paths: []string{path}, Namespace: "default"}, FailOn: tt.failOn, Ignore: tt.ignore,
				Output: cli.Validation{Stdout: &stdout, Format: "text"},
			}
			if err := o.Check(); err != nil {
				t.Fatal(err)
			}
			passed, err := o.Run(t.Context(), rules, "", nil, &stderr)
			if err != nil || passed != tt.passed {
				t.Errorf("passed %v, want %v; %v", passed, tt.passed, err)
			}
			rest := stdout.String()
			for _, code := range tt.codes {
				_, after, found := strings.Cut(rest, "("+code+")")
				if !found {
					t.Fatalf("no %s in\n%s", code, stdout.String())
				}
				rest = after
			}
			if strings.Contains(rest, "\nhint: ") && strings.Count(rest, "\nhint: ") > 1 || tt.codes == nil && rest != "" {
				t.Errorf("more findings:\n%s", stdout.String())
			}
			if !strings.Contains(stderr.String(), "dnsconfigurer: "+tt.summary) {
				t.Errorf("summary %s\nwant %s", stderr.String(), tt.summary)
			}
		})
	}
}

func TestOptions_Check(t *testing.T) {
	valid := cli.ValidateOptions{
		Input: manifest.Input{Paths: []string{"a"}, Namespace: "shop"}, FailOn: "info", Output: cli.Validation{Format: "sarif"},
	}
	for want, change := range map[string]func(*cli.ValidateOptions){
		"":                      func(*cli.ValidateOptions) {},
		"no manifests":          func(o *cli.ValidateOptions) { o.Input.Paths = nil },
		`--namespace "A": want`: func(o *cli.ValidateOptions) { o.Input.Namespace = "A" },
		`--ignore: unknown code "musl-search-lin": did you mean musl-search-line?`: func(o *cli.ValidateOptions) {
			o.Ignore = []string{"glibc-dies", "musl-search-lin"}
		},
	} {
		o := valid
		change(&o)
		err := o.Check()
		if _, ok := errors.AsType[usage.Error](err); ok != (want != "") || ok && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOptions_Run_UnknownCodes: an annotation with codes that no finding has changes nothing. There
// are notes about the first of them, of bounded size.
func TestOptions_Run_UnknownCodes(t *testing.T) {
	rules, err := admission.New(policy.Node{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const pods = 100
	var text strings.Builder
	for i := range pods {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web-%d\n  annotations:\n    "+
			"dnsconfigurer.dev/ignore: \"%s, option-value,\"\nspec: {containers: [{name: c, image: i}]}\n", i, strings.Repeat("x,", 1000))
	}
	path := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	o := cli.ValidateOptions{
		Input: manifest.Input{Paths: []string{path}, Namespace: "default"}, FailOn: "info",
		Output: cli.Validation{Stdout: &stdout, Format: "text"},
	}
	passed, err := o.Run(t.Context(), rules, "", nil, &stderr)
	if err != nil || !passed || stdout.Len() > 0 {
		t.Errorf("passed %v, %v, output %q", passed, err, stdout.String())
	}
	note := path + `:7:5: annotation dnsconfigurer.dev/ignore: unknown code "x": docs/checks.md lists the codes`
	want := strings.Repeat("dnsconfigurer: "+note+"\n", 10) +
		"dnsconfigurer: annotations dnsconfigurer.dev/ignore: 99990 more unknown codes\n" +
		"dnsconfigurer: 100 objects checked, 0 errors, 0 warnings\n"
	if stderr.String() != want {
		t.Errorf("%.3000s\nwant\n%s", stderr.String(), want)
	}
}
