// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/chart"

var update = flag.Bool("update", false, "write values.schema.json")

// helmPath is where TestMain builds helm.
var helmPath string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run builds helm, a tool of this module, and runs the tests. "go tool" would examine a
// thousand packages with each call.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "helm")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	helmPath = filepath.Join(dir, "helm")
	build := exec.Command("go", "build", "-o", helmPath, "helm.sh/helm/v4/cmd/helm")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building helm:", err)
		return 1
	}
	return m.Run()
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(helmPath, args...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(err.Error() + "\n" + problems.String())
	}
	return out.String(), nil
}

// render returns the objects of the chart with the values of a file in testdata, by kind and
// name; "" are the defaults.
func render(t *testing.T, values string, args ...string) map[string]map[string]any {
	t.Helper()
	args = append([]string{"template", "dnsconfigurer", chartDir, "--namespace", "kube-system", "--kube-version", "1.36.0"}, args...)
	if values != "" {
		args = append(args, "--values", filepath.Join("testdata", values))
	}
	out, err := helm(t, args...)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return objects(t, out)
}

func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o == nil {
			continue
		}
		metadata := o["metadata"].(map[string]any)
		found[o["kind"].(string)+" "+metadata["name"].(string)] = o
	}
	return found
}

// schemaOf returns the JSON schema of a value: the keys and types of values.yaml, and no
// others. What is empty there, and Kubernetes' own structures, may have any content.
func schemaOf(key string, value any) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		schema := map[string]any{"type": "object"}
		if len(value) == 0 || key == "resources" || key == "labels" {
			return schema
		}
		properties := map[string]any{}
		for k, v := range value {
			properties[k] = schemaOf(k, v)
		}
		if key == "" {
			properties["global"] = map[string]any{"type": "object"} // of a parent chart
		}
		schema["properties"], schema["additionalProperties"] = properties, false
		return schema
	case []any:
		return map[string]any{"type": "array"}
	case bool:
		return map[string]any{"type": "boolean"}
	case float64:
		return map[string]any{"type": []string{"integer", "string"}} // numbers, and percentages of Kubernetes
	}
	return map[string]any{"type": "string"}
}

// TestSchema checks that values.schema.json describes values.yaml.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	schema := schemaOf("", values)
	schema["$schema"] = "https://json-schema.org/draft-07/schema#"
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	path := filepath.Join(chartDir, "values.schema.json")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("values.schema.json does not describe values.yaml (%v): run go test -update", err)
	}
}

// TestSchema_Misspelled checks that a value that nothing reads is refused.
func TestSchema_Misspelled(t *testing.T) {
	for _, set := range []string{"dns.replica=3", "nodecache.enabled=true", "image.tagg=x", "dns.enabled=maybe"} {
		if _, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", set); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("--set %s: %v, want an error about the schema", set, err)
		}
	}
}

// TestLint runs helm's own checks with each set of values.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range append(files, filepath.Join(chartDir, "values.yaml")) {
		if out, err := helm(t, "lint", "--strict", chartDir, "--values", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// podTemplate returns the pod template of an object, without what the chart adds to every
// template: labels, annotations and selectors.
func podTemplate(t *testing.T, o map[string]any) map[string]any {
	t.Helper()
	if o == nil {
		t.Fatal("no such object")
	}
	spec := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	constraints, _ := spec["topologySpreadConstraints"].([]any)
	for _, c := range constraints {
		delete(c.(map[string]any), "labelSelector")
	}
	return spec
}

// TestChart_Manifests checks that the chart runs the pods of the manifests for kubectl.
func TestChart_Manifests(t *testing.T) {
	rendered := render(t, "everything.yaml")
	for _, c := range []struct{ file, kind, name string }{
		{"cluster-dns/deployment.yaml", "Deployment", "dnsconfigurer-dns"},
		{"node-cache/daemonset.yaml", "DaemonSet", "dnsconfigurer-node-cache"},
	} {
		text, err := os.ReadFile(filepath.Join("../../deploy", c.file))
		if err != nil {
			t.Fatal(err)
		}
		want := podTemplate(t, objects(t, string(text))[c.kind+" "+c.name])
		got := podTemplate(t, rendered[c.kind+" "+c.name])
		delete(got["containers"].([]any)[0].(map[string]any), "imagePullPolicy")
		if diff := difference(t, want, got); diff != "" {
			t.Errorf("%s and the chart (-manifest +chart):\n%s", c.file, diff)
		}
	}
}

// difference compares two values in the form of diff(1).
func difference(t *testing.T, want, got any) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]any{"want": want, "got": got} {
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := exec.Command("diff", "-u", filepath.Join(dir, "want"), filepath.Join(dir, "got")).Output()
	return string(out)
}

// buildProgram builds dnsconfigurer and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dnsconfigurer")
	build := exec.Command("go", "build", "-o", program, "./cmd/dnsconfigurer")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestChart_Policies checks that the chart has the policies that the program prints.
func TestChart_Policies(t *testing.T) {
	rendered := render(t, "everything.yaml", "--set", "clusterDomain=corp.example,clusterDNSAddress=10.0.0.10")
	out, err := exec.Command(buildProgram(t), "policies", "--cluster-domain", "corp.example", "--cluster-dns", "10.0.0.10").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := objects(t, string(out))
	if len(want) < 5 {
		t.Fatalf("%d objects", len(want))
	}
	for key, o := range want {
		if diff := difference(t, o, rendered[key]); diff != "" {
			t.Errorf("%s (-program +chart):\n%s", key, diff)
		}
	}
}

// TestChart_Configuration checks the configurations that the chart renders as the servers
// read them.
func TestChart_Configuration(t *testing.T) {
	program := buildProgram(t)
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, values := range append(files, "") {
		if values != "" {
			values = filepath.Base(values)
		}
		for name, o := range render(t, values) {
			data, _ := o["data"].(map[string]any)
			for key, text := range data {
				if !strings.HasSuffix(key, ".yaml") { // the dashboard
					continue
				}
				file := filepath.Join(t.TempDir(), key)
				if err := os.WriteFile(file, []byte(text.(string)), 0o644); err != nil {
					t.Fatal(err)
				}
				checked++
				if out, err := exec.Command(program, "config", "check", file).CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s\n%s", values, name, err, out, text)
				}
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d configurations checked", checked)
	}
}

// TestChart_Monitoring checks that the chart has the rules and the dashboard of deploy.
func TestChart_Monitoring(t *testing.T) {
	rendered := render(t, "everything.yaml")
	text, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := difference(t, want, rendered["PrometheusRule dnsconfigurer"]["spec"]); diff != "" {
		t.Errorf("deploy/monitoring/rules.yaml and the chart (-file +chart):\n%s", diff)
	}
	data := rendered["ConfigMap dnsconfigurer-dashboard"]["data"].(map[string]any)
	if text := data["dnsconfigurer.json"].(string); !json.Valid([]byte(text)) || !strings.Contains(text, "{{source}}") {
		t.Errorf("dashboard:\n%s", text)
	}
}

// TestChart_Values checks values that change what is rendered.
func TestChart_Values(t *testing.T) {
	if got := render(t, "", "--set", "dns.enabled=false"); len(got) != 0 {
		t.Errorf("everything switched off: %v", got)
	}
	image := func(args ...string) string {
		d := podTemplate(t, render(t, "", args...)["Deployment dnsconfigurer-dns"])
		return d["containers"].([]any)[0].(map[string]any)["image"].(string)
	}
	for want, args := range map[string][]string{
		"registry.corp.example:5000/dnsconfigurer:v9":                      {"--set", "image.registry=registry.corp.example:5000,image.tag=v9"},
		"registry.example/dnsconfigurer@sha256:" + strings.Repeat("a", 64): {"--set", "image.tag=v9,image.digest=sha256:" + strings.Repeat("a", 64)},
	} {
		if got := image(args...); got != want {
			t.Errorf("%v: image %s, want %s", args, got, want)
		}
	}
	if _, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", "dns.networkPolicy.enabled=true"); err == nil || !strings.Contains(err.Error(), "dns.networkPolicy.apiServer") {
		t.Errorf("a NetworkPolicy without the API server: %v", err)
	}
	for set, want := range map[string]string{"clusterDomain=two words": "clusterDomain", "clusterDNSAddress=x": "clusterDNSAddress"} {
		if _, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", set); err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("--set %s: %v", set, err)
		}
	}
	for key, o := range render(t, "everything.yaml", "--set", "namespaceOverride=dns-system") {
		if namespace, found := o["metadata"].(map[string]any)["namespace"]; found && namespace != "dns-system" {
			t.Errorf("%s is in namespace %v", key, namespace)
		}
	}
}
