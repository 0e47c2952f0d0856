// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// trustModes are one configuration of each.
func trustModes() map[string]Config {
	base := Config{
		Namespace: "other", Image: "registry.example/image:v9", ClusterDNS: []string{"10.1.0.10", "fd00::a"}, ClusterDomain: "corp.example",
		Mutating: true, Scale: true,
	}
	issuer, bundle := base, base
	issuer.IssuerKind, issuer.IssuerName = "ClusterIssuer", "internal"
	bundle.CABundle = []byte("PEM")
	return map[string]Config{"cert-manager": issuer, "ca-file": bundle}
}

// render returns the objects of the trust mode ca-file with a change.
func render(t *testing.T, change func(*Config)) []map[string]any {
	t.Helper()
	c := trustModes()["ca-file"]
	change(&c)
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return values(t, text)
}

// values decodes documents without their comments.
func values(t *testing.T, text []byte) (list []map[string]any) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var v map[string]any
		if err := yaml.Unmarshal(document, &v); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		list = append(list, v)
	}
	return list
}

// left matches values of the files that a configuration replaces.
var left = regexp.MustCompile(
	`namespace: dnsconfigurer\b|\[kube-system, ` +
		`dnsconfigurer\]|10\.96\.0\.10|cluster\.local|v0\.1\.0|webhook\.dnsconfigurer\.svc|kind: Issuer\b`)

func TestYAML_Values(t *testing.T) {
	for name, c := range trustModes() {
		for _, c.Mutating = range []bool{true, false} {
			for _, c.Scale = range []bool{true, false} {
				testValues(t, name, c)
			}
		}
	}
}

// testValues checks that the objects have all values of c, and only the objects of its trust
// mode.
func testValues(t *testing.T, name string, c Config) {
	t.Helper()
	text, err := c.YAML()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if found := left.FindAllString(string(text), -1); found != nil {
		t.Errorf("%s: left over: %q", name, found)
	}
	for feature, want := range map[string]bool{
		"kind: MutatingWebhookConfiguration": c.Mutating,
		scaleWebhook:                         c.Scale,
		"resources: [statefulsets]":          c.Scale,
		"automountServiceAccountToken":       !c.Scale,
		"kind: Certificate":                  name == "cert-manager",
		"cert-manager.io/inject-ca-from: other/dnsconfigurer-webhook":   name == "cert-manager",
		"caBundle: " + base64.StdEncoding.EncodeToString([]byte("PEM")): name == "ca-file",
		"clusterDNS: [10.1.0.10, ":                                      true,
	} {
		if got := strings.Contains(string(text), feature); got != want {
			t.Errorf("%s, mutating %v, scale %v: contains %q: %v, want %v", name, c.Mutating, c.Scale, feature, got, want)
		}
	}
}

// TestYAML_Kustomize: without edits the objects are those of the kustomization in files.
func TestYAML_Kustomize(t *testing.T) {
	text, err := files.ReadFile("files/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	for _, file := range kustomization.Resources {
		text, err := files.ReadFile("files/" + file)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, values(t, text)...)
	}
	plain := Config{
		Namespace: "dnsconfigurer", Image: "registry.example/dnsconfigurer:v0.1.0",
		ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
		Mutating: true, Scale: true,
	}
	got, err := plain.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, values(t, got)); diff != "" {
		t.Errorf("(-files +objects):\n%s", diff)
	}
}

// TestYAML_Quoted: values that YAML would read as numbers, truths or anchors stay strings.
func TestYAML_Quoted(t *testing.T) {
	for _, namespace := range []string{"123", "true", "on", "null", "1e3", "0x1f", "y"} {
		for _, v := range render(t, func(c *Config) { c.Namespace, c.ClusterDomain, c.Image = namespace, "1.2", "&x" }) {
			metadata := v["metadata"].(map[string]any)
			switch v["kind"] {
			case "Namespace":
				if metadata["name"] != namespace {
					t.Errorf("Namespace %v, want %q", metadata["name"], namespace)
				}
			case "ConfigMap":
				if file := v["data"].(map[string]any)["webhook.yaml"].(string); metadata["namespace"] != namespace ||
					!strings.Contains(file, "clusterDomain: \"1.2\"") {
					t.Errorf("namespace %v, want %q: %s", metadata["namespace"], namespace, file)
				}
			case "Deployment":
				if image := valueAt(v["spec"], []string{"template", "spec", "containers", "image"}); image != "&x" {
					t.Errorf("the image is %v", image)
				}
			}
		}
	}
}

// TestYAML_NetworkPolicy: only with networks of the API server.
func TestYAML_NetworkPolicy(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29"), netip.MustParsePrefix("2001:db8::/64")}
	for _, v := range render(t, func(c *Config) { c.APIServerCIDRs = networks }) {
		if v["kind"] != "NetworkPolicy" {
			continue
		}
		want := []any{
			map[string]any{"from": []any{
				map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/29"}},
				map[string]any{"ipBlock": map[string]any{"cidr": "2001:db8::/64"}},
			}, "ports": []any{map[string]any{"port": "https"}}},
			map[string]any{"ports": []any{map[string]any{"port": "metrics"}}},
		}
		if diff := cmp.Diff(want, v["spec"].(map[string]any)["ingress"]); diff != "" ||
			v["metadata"].(map[string]any)["namespace"] != "other" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		return
	}
	t.Error("there is no NetworkPolicy")
}

// TestYAML_ExcludedNamespaces: no webhook reviews the objects of these namespaces, kube-system and
// that of the server.
func TestYAML_ExcludedNamespaces(t *testing.T) {
	want, hooks := []any{"kube-system", "other", "ci", "123"}, 0
	for _, o := range render(t, func(c *Config) { c.ExcludedNamespaces = []string{"ci", "123"} }) {
		list, _ := o["webhooks"].([]any)
		for _, hook := range list {
			got := valueAt(hook, []string{"namespaceSelector", "matchExpressions", "values"})
			if diff := cmp.Diff(any(want), got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", valueAt(hook, []string{"name"}), diff)
			}
			hooks++
		}
	}
	if hooks < 5 {
		t.Errorf("%d webhooks", hooks)
	}
}

func TestObject_MissingField(t *testing.T) {
	for name, edit := range map[string]func(*object){
		"set":    func(o *object) { o.set("a/1/x", "y") },
		"add":    func(o *object) { o.add("b", "x", "y") },
		"remove": func(o *object) { o.remove("a/7") },
	} {
		objects, err := decode([]byte("a: [{x: 1}]\n"))
		if err != nil || len(objects) != 1 {
			t.Fatal(err)
		}
		edit(objects[0])
		if text, err := objects[0].encode(); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestObject_Edit(t *testing.T) {
	objects, err := decode([]byte("# about a\na: [x, y] # kept\nb:\n- c: 1\n- c: 2\nd: |\n  text\n---\ne: 1\n"))
	if err != nil || len(objects) != 2 {
		t.Fatal(err)
	}
	o := objects[0]
	o.set("a", []string{"z"})
	o.remove("b/0")
	o.add("b/0", "f", true)
	o.set("d", "other\n")
	got, err := o.encode()
	want := "# about a\na: [z] # kept\nb:\n- c: 2\n  f: true\nd: |\n  other\n"
	if err != nil || string(got) != want {
		t.Errorf("%q, want %q; %v", got, want, err)
	}
	if e := objects[1].text("e"); e != "1" {
		t.Errorf("the second document has e: %q", e)
	}
}

// TestYAML_NamespaceExists: objects that are deleted as they were created must not include a
// namespace that others use.
func TestYAML_NamespaceExists(t *testing.T) {
	for _, exists := range []bool{true, false} {
		kinds := map[any]int{}
		for _, object := range render(t, func(c *Config) { c.NamespaceExists = exists }) {
			kinds[object["kind"]]++
		}
		if written := kinds["Namespace"] > 0; written == exists || kinds["ServiceAccount"] != 1 {
			t.Errorf("the namespace exists: %t, objects: %v", exists, kinds)
		}
	}
}

// TestYAML_PodSecurity: the namespace enforces the profile restricted, which the server's pods meet:
// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func TestYAML_PodSecurity(t *testing.T) {
	for name, c := range trustModes() {
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"Namespace metadata labels pod-security.kubernetes.io/enforce":                      "restricted",
			"Deployment spec template spec securityContext runAsNonRoot":                        true,
			"Deployment spec template spec securityContext seccompProfile type":                 "RuntimeDefault",
			"Deployment spec template spec containers securityContext allowPrivilegeEscalation": false,
			"Deployment spec template spec containers securityContext capabilities drop":        []any{"ALL"},
			"Deployment spec template spec hostNetwork":                                         nil,
			"Deployment spec template spec containers securityContext capabilities add":         nil,
			"Deployment spec template spec volumes hostPath":                                    nil,
		}
		objects := values(t, text)
		for path, value := range want {
			keys := strings.Fields(path)
			i := slices.IndexFunc(objects, func(o map[string]any) bool { return o["kind"] == keys[0] })
			if got := valueAt(objects[i], keys[1:]); !reflect.DeepEqual(got, value) {
				t.Errorf("%s: %s: %v, want %v", name, path, got, value)
			}
		}
	}
}

// valueAt returns the value below keys, in a list that of the first item with one; nil if there is none.
func valueAt(value any, keys []string) any {
	if list, ok := value.([]any); ok && len(keys) > 0 {
		for _, item := range list {
			if v := valueAt(item, keys); v != nil {
				return v
			}
		}
		return nil
	}
	object, ok := value.(map[string]any)
	switch {
	case len(keys) == 0:
		return value
	case !ok:
		return nil
	}
	return valueAt(object[keys[0]], keys[1:])
}

// TestOptions_Invalid checks that each error names its flag and its value.
func TestOptions_Invalid(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`--namespace: "Shop"`:                       func(o *Options) { o.Namespace = "Shop" },
		`--image: ""`:                               func(o *Options) { o.Image = "" },
		`--image: "a b"`:                            func(o *Options) { o.Image = "a b" },
		`--cluster-domain: "a..b"`:                  func(o *Options) { o.ClusterDomain = "a..b" },
		`--exclude-namespace: ""`:                   func(o *Options) { o.ExcludedNamespaces = []string{"ci", ""} },
		`--cluster-dns: "10.0.0"`:                   func(o *Options) { o.ClusterDNS = []string{"10.0.0.1", "10.0.0"} },
		`--api-server-cidr: "192.0.2.1/24"`:         func(o *Options) { o.APIServerCIDRs = []string{"192.0.2.1/24"} },
		`--cert-manager-issuer: "CA/x"`:             func(o *Options) { o.Issuer, o.CAFile = "CA/x", "" },
		`want one source of the certificate: set -`: func(o *Options) { o.Issuer = "internal" },
		`want one source of the certificate`:        func(o *Options) { o.CAFile = "" },
	} {
		o := Options{Config: Config{Namespace: "dnsconfigurer", Image: "registry.example/image:v1"}, CAFile: "ca.crt"}
		if _, err := o.Parse(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := o.Parse(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestOptions_Issuer(t *testing.T) {
	for text, want := range map[string][2]string{
		"internal": {"Issuer", "internal"}, "Issuer/internal": {"Issuer", "internal"}, "ClusterIssuer/ca": {"ClusterIssuer", "ca"},
	} {
		c, err := Options{Config: Config{Namespace: "n", Image: "i"}, Issuer: text}.Parse()
		if err != nil || [2]string{c.IssuerKind, c.IssuerName} != want {
			t.Errorf("%s: %s/%s, %v", text, c.IssuerKind, c.IssuerName, err)
		}
	}
}

// TestLoadBundle_Size: a file without an end is an error.
func TestLoadBundle_Size(t *testing.T) {
	want := "reading the CA certificate: /dev/zero: larger than 1048576 bytes"
	if err := new(Config).LoadBundle("/dev/zero"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
