// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	pod     = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
	service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
)

// write creates the files of a new directory, which becomes the working directory.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

func TestRead_FilesDirectoriesAndStdin(t *testing.T) {
	write(t, map[string]string{
		"file.txt":      fmt.Sprintf(pod, "file"),
		"dir/b.yml":     fmt.Sprintf(pod, "b"),
		"dir/a.json":    `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`,
		"dir/c.yaml":    service,
		"dir/d.txt":     "not: read",
		"dir/e/f.yaml":  "not: read",
		"dir/.g.yaml":   fmt.Sprintf(pod, "g"),
		"dir/h.yaml.sw": "not: read",
	})
	m := must.Get(kube.Input{Paths: []string{"file.txt", "dir", "-"}}.Read(strings.NewReader(fmt.Sprintf(pod, "stdin"))))(t)
	var got []string
	for _, w := range m.Workloads {
		got = append(got, w.Name+" "+w.At("").String())
	}
	want := []string{"file file.txt:1:1", "g dir/.g.yaml:1:1", "a dir/a.json:1:1", "b dir/b.yml:1:1", "stdin stdin:1:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.Others) != 1 || m.Others[0].At("").File != filepath.Join("dir", "c.yaml") {
		t.Errorf("others: %+v", m.Others)
	}
}

func TestRead_ErrorsBesideObjects(t *testing.T) {
	write(t, map[string]string{"pod.yaml": fmt.Sprintf(pod, "p"), "bad.yaml": "a: [\n", "empty/a.txt": ""})
	m, err := kube.Input{Paths: []string{"absent.yaml", "bad.yaml", "empty", "pod.yaml"}}.Read(nil)
	want := `absent.yaml: no such file or directory
bad.yaml:1: did not find expected node content
empty: no .yaml, .yml or .json file in this directory`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.Workloads) != 1 {
		t.Errorf("%d workloads, want that of the valid file", len(m.Workloads))
	}
}

// TestRead_Directories: nothing in a directory is dropped without a note.
func TestRead_Directories(t *testing.T) {
	files := map[string]string{
		"d/pod.yaml":                fmt.Sprintf(pod, "a"),
		"d/values.yaml":             "replicas: 3\n",
		"d/patch.json":              `[{"op": "remove", "path": "/a"}]`,
		"d/base/pod.yaml":           fmt.Sprintf(pod, "b"),
		"d/base/deep/pod.yml":       fmt.Sprintf(pod, "c"),
		"d/base/kustomization.yaml": "resources: [pod.yaml]\n",
		"d/chart/Chart.yaml":        "apiVersion: v2\nname: x\n",
		"d/chart/templates/a.yaml":  "{{ x }}\n",
		"d/.git/a.yaml":             "a: [",
		"only/below/pod.yaml":       fmt.Sprintf(pod, "d"),
	}
	write(t, files)
	must.Succeed(t, os.Symlink("base", "d/link"))
	const passed = "d/patch.json:1:1: not a Kubernetes object, not read d/values.yaml:1:1: not a Kubernetes object, not read"
	for _, tt := range []struct {
		input             kube.Input
		pods, notes, want string
	}{
		{kube.Input{Paths: []string{"d"}}, "a", "d: 2 subdirectories are not read " + passed, ""},
		{kube.Input{Paths: []string{"d"}, Recursive: true}, "c b a",
			"d/chart: a Helm chart is not read d/link: a link to a directory is not read " +
				"d/base/kustomization.yaml:1:1: a kustomization is not read " + passed, ""},
		{kube.Input{Paths: []string{"only"}}, "", "", "only: no .yaml, .yml or .json file in this directory"},
		{kube.Input{Paths: []string{"only"}, Recursive: true}, "d", "", ""},
		{kube.Input{Paths: []string{"d/base/*/*.yml"}}, "c", "", ""},
		{kube.Input{Paths: []string{"d/*.yml"}}, "", "", "d/*.yml: no file matches"},
		{kube.Input{Paths: []string{"d/chart"}}, "", "", "d/chart: a Helm chart is not read"},
		{kube.Input{Paths: []string{"d/values.yaml"}}, "", "",
			"d/values.yaml:1:1: not a Kubernetes object: apiVersion and kind are missing"},
	} {
		m, err := tt.input.Read(nil)
		var pods []string
		for _, w := range m.Workloads {
			pods = append(pods, w.Name)
		}
		notes := strings.Trim(fmt.Sprint(m.Notes), "[]")
		if got := strings.Join(pods, " "); got != tt.pods || notes != tt.notes || err == nil &&
			tt.want != "" || err != nil && err.Error() != tt.want {
			t.Errorf("%+v:\n got %s; %s; %v\nwant %s; %s; %s", tt.input, got, notes, err, tt.pods, tt.notes, tt.want)
		}
	}
}

// TestRead_Strict: unknown fields are errors, or are counted.
func TestRead_Strict(t *testing.T) {
	write(t, map[string]string{"pod.yaml": fmt.Sprintf(pod, "p") + "status: {newField: 1}\n"})
	for _, strict := range []bool{false, true} {
		m, err := kube.Input{Paths: []string{"pod.yaml"}, Strict: strict}.Read(nil)
		if strict != (err != nil) || strict == (len(m.Unknown) == 1) || len(m.Workloads) != 1 {
			t.Errorf("strict %v: %d unknown, %v", strict, len(m.Unknown), err)
		}
	}
}

func TestRead_SizeLimit(t *testing.T) {
	large := strings.NewReader(strings.Repeat("#", kube.MaxManifest+2))
	_, err := kube.Input{Paths: []string{"-"}}.Read(large)
	if want := "stdin: larger than 33554432 bytes"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if large.Len() != 1 {
		t.Errorf("%d bytes are left unread, want 1", large.Len())
	}
}

func TestReadPods_WithoutPods(t *testing.T) {
	write(t, map[string]string{"s.yaml": service + "---\n" + service, "list.yaml": "apiVersion: v1\nkind: List\nitems: []\n"})
	for path, want := range map[string]string{
		"s.yaml": "no pod or pod template in s.yaml: found only Service",
		"list.yaml": "no pod or pod template in list.yaml: the List has no items: " +
			"check what has written it, such as the namespace of kubectl get",
	} {
		if _, err := (kube.Input{Paths: []string{path}}).ReadPods(nil); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestListManifests_Errors(t *testing.T) {
	if files, err := kube.ListManifests(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Errorf("got %v for an absent directory", files)
	}
}

// placesOf returns the objects of a manifest with their places, and all that was reported.
func placesOf(text string) (lines []string) {
	m, err := kube.ParseManifest("f", []byte(text))
	for _, w := range m.Workloads {
		lines = append(lines, fmt.Sprintf("%s %s/%s at %v", w.Kind, w.Namespace, w.Name, w.At("")))
	}
	for _, o := range m.Others {
		lines = append(lines, fmt.Sprintf("%s %s at %v", o.Kind, o.Path(), o.At("")))
	}
	for _, u := range m.Unknown {
		lines = append(lines, u.InputError().Error())
	}
	return append(lines, fmt.Sprint(m.Notes), fmt.Sprint(err))
}

// A list is split into its items, unless a comment follows the separator of its document.
func splitAndWhole(text string) (split, whole []string) {
	return placesOf("---\n" + text), placesOf("--- #\n" + text)
}

const listHead = "apiVersion: v1\nkind: List\n"

// TestParseManifest_List: the items of a list have the places and the errors that they have in the list as a whole.
func TestParseManifest_List(t *testing.T) {
	const pod = "- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: {hostname: a}\n"
	for name, text := range map[string]string{
		"two pods":                            listHead + "items:\n" + pod + pod + "metadata: {resourceVersion: ''}\n",
		"indented":                            listHead + "items:\n  " + strings.ReplaceAll(pod, "\n", "\n  ") + "\nmetadata: {}\n",
		"comments and blank lines":            listHead + "items: \n# one\n\n" + pod + "\n# two\n" + pod,
		"items first":                         "items:\n" + pod + "kind: List\napiVersion: v1\n",
		"a typed list":                        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {hostNmae: x}\n",
		"block scalars":                       listHead + "items:\n" + pod + "  data: |\n    - a\n    items:\n" + pod,
		"a quoted scalar at the first column": listHead + "items:\n- apiVersion: v1\n  kind: \"Pod\n\n- b\"\n",
		"an alias of another item":            listHead + "items:\n- &a {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- *a\n",
		"a list in a list":                    listHead + "items:\n- apiVersion: v1\n  kind: List\n  items:\n  - {}\n",
		"an item without a kind":              listHead + "items:\n" + pod + "- apiVersion: v1\n",
		"an item that is a scalar":            listHead + "items:\n" + pod + "- text\n",
		"an item that is not YAML":            listHead + "items:\n" + pod + "- {a: [}\n",
		"a key twice":                         listHead + "items:\n" + pod + "  kind: Pod\n",
		"an error in a field":                 listHead + "items:\n" + pod + "- {apiVersion: v1, kind: Pod, spec: {dnsPolicy: 5}}\n",
		"flow style":                          listHead + "items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n",
		"no items":                            listHead + "items:\n",
		"items twice":                         listHead + "items:\n" + pod + "items:\n" + pod,
		"another kind":                        "apiVersion: example.com/v1\nkind: MenuList\nitems:\n- a\n",
	} {
		split, whole := splitAndWhole(text)
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("%s: (-as a whole +split)\n%s", name, diff)
		}
	}
}

func FuzzParseManifest_List(f *testing.F) {
	f.Add("- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- {}\nmetadata: {}\n")
	f.Add("  - a: |\n     - b\n  - *c\n")
	f.Fuzz(func(t *testing.T, items string) {
		items = strings.NewReplacer("\r", "", "\u0085", "", "\u2028", "", "\u2029", "").Replace(items) // lines for the decoder alone
		split, whole := splitAndWhole(listHead + "items:\n" + items)
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("(-as a whole +split)\n%s", diff)
		}
	})
}
