// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// lengths are those on both sides of each limit of a name.
var lengths = []int{1, 47, 48, 52, 53, 61, 62, 63, 64, 65, 253, 254, 255}

// spellings are names that are valid, or not, in other ways than by their length.
var spellings = []string{
	"web.shop", "web..shop", ".web", "web.", "-web", "web-", "we--b", "Web", "web_shop", "web.-shop",
	"0", "-", "--", "a-", "a.-", "a.--", "A-", "wéb", "web shop", strings.Repeat("a.", 32) + "a",
}

// names returns names below, at and above each limit, and names that end in a dash as those
// that the API server completes.
func names() []string {
	all := spellings
	for _, n := range lengths {
		name := strings.Repeat("n", n)
		all = append(all, name, strings.Repeat("n.", n/2)+"n", strings.Repeat("n", n-1)+"-")
	}
	return all
}

// TestAPIServer_Names compares the command validate with the API server, of the release that it
// follows: each name of each kind is refused by both or by neither.
func TestAPIServer_Names(t *testing.T) {
	w := newWebhookTest(t, apiserver.Start(t, withoutAccounts))
	var objects [][]byte
	for _, k := range kinds {
		for _, name := range names() {
			objects = append(objects, named(t, k, map[string]any{"name": name}, nil))
			objects = append(objects, named(t, k, map[string]any{"generateName": name}, nil))
			if len(name) < 8 || len(name) > 250 {
				objects = append(objects, named(t, k, map[string]any{"name": "web", "generateName": name}, nil))
			}
			if k.name == "Pod" || k.name == "StatefulSet" || k.name == "Job" {
				for _, field := range []string{"hostname", "subdomain", "hostnameOverride"} {
					objects = append(objects, named(t, k, map[string]any{"name": "web"}, map[string]any{field: name}))
				}
				aliases := []any{map[string]any{"ip": "192.0.2.1", "hostnames": []string{"db", name}}}
				objects = append(objects, named(t, k, map[string]any{"name": "web"}, map[string]any{"hostAliases": aliases}))
			}
			if k.name == "Job" || k.name == "CronJob" {
				objects = append(objects, indexed(t, named(t, k, map[string]any{"name": name}, map[string]any{"hostname": "web"}), 11))
				objects = append(objects, indexed(t, named(t, k, map[string]any{"name": name}, nil), 0))
				objects = append(objects, indexed(t, named(t, k, map[string]any{"name": "web"}, map[string]any{"hostname": name}), 1))
			}
		}
	}
	for _, ip := range []string{"", "192.0.2.1", "2001:db8::1", "192.0.2.010", "::ffff:192.0.2.1", "fe80::1%eth0", "192.0.2.1:53", "db"} {
		aliases := []any{map[string]any{"ip": ip}}
		objects = append(objects, named(t, kinds[0], map[string]any{"name": "web"}, map[string]any{"hostAliases": aliases}))
	}
	refused := 0
	for i, o := range validated(t, w.binary, objects) {
		errs := refusals(o)
		s := must.Get(w.create(t.Context(), objects[i], true))(t)
		if s.refused != "" {
			refused++
		}
		if (s.refused != "") != (errs != nil) {
			t.Errorf("%s\nvalidate: %q\nAPI server: %q", objects[i], errs, s.refused)
		}
	}
	t.Logf("%d objects, %d of them refused", len(objects), refused)
	if refused < len(objects)/10 || refused > len(objects)*9/10 {
		t.Error("nearly all objects are the same to the API server")
	}
}

// named returns an object of a kind with this metadata, and these fields of the pod.
func named(t *testing.T, k kind, metadata, fields map[string]any) []byte {
	t.Helper()
	spec := map[string]any{
		"containers":    []any{map[string]any{"name": "app", "image": "registry.example/app:1"}},
		"restartPolicy": k.restart,
	}
	for key, value := range fields {
		spec[key] = value
	}
	meta := "metadata: " + text(t, metadata)
	manifest := strings.NewReplacer(", ANNOTATIONS", "", "ANNOTATIONS", "",
		"metadata: {name: NAME}", meta, "metadata: {name: NAME, ANNOTATIONS}", meta,
		"NAME", "app", "SPEC", text(t, spec)).Replace(k.manifest)
	js, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return js
}

// indexed returns a Job or CronJob with indexes.
func indexed(t *testing.T, object []byte, completions int) []byte {
	t.Helper()
	var o map[string]any
	must.Succeed(t, json.Unmarshal(object, &o))
	spec := o["spec"].(map[string]any)
	if o["kind"] == "CronJob" {
		spec = spec["jobTemplate"].(map[string]any)["spec"].(map[string]any)
	}
	spec["completionMode"], spec["completions"] = "Indexed", completions
	return []byte(text(t, o))
}

// refusals returns the errors for which the API server refuses an object, according to the command
// validate.
func refusals(o v1alpha1.ValidateResult) (errs []string) {
	for _, f := range o.Findings {
		later := f.Code == "statefulset-name" || f.Code == "generated-hostname" && o.Kind != "Job"
		if f.Severity == "error" && f.EnforcedBy == "apiserver" && !later {
			errs = append(errs, f.Field+": "+f.Message)
		}
	}
	return errs
}

// validated returns the results of the command validate, one for each object.
func validated(t *testing.T, binary string, objects [][]byte) (all []v1alpha1.ValidateResult) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.json")
	must.Succeed(t, os.WriteFile(file, bytes.Join(objects, []byte("\n")), 0o600))
	out, err := exec.CommandContext(t.Context(), binary, "validate", "-o", "json", file).Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	for line := range bytes.Lines(out) {
		var o v1alpha1.ValidateResult
		if err := json.Unmarshal(line, &o); err != nil || o.Error != "" {
			t.Fatalf("%v %s", err, line)
		}
		all = append(all, o)
	}
	if len(all) != len(objects) {
		t.Fatalf("%d lines about %d objects", len(all), len(objects))
	}
	return all
}
