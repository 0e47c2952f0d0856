// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
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
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
	m, err := manifest.Read([]string{"file.txt", "dir", "-"}, strings.NewReader(fmt.Sprintf(pod, "stdin")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range m.Workloads {
		got = append(got, w.Name+" "+w.Location.String())
	}
	want := []string{"file file.txt:1", "g dir/.g.yaml:1", "a dir/a.json:1", "b dir/b.yml:1", "stdin stdin:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.Others) != 1 || m.Others[0].File != filepath.Join("dir", "c.yaml") {
		t.Errorf("others: %+v", m.Others)
	}
}

func TestRead_ErrorsBesideObjects(t *testing.T) {
	write(t, map[string]string{"pod.yaml": fmt.Sprintf(pod, "p"), "bad.yaml": "a: [\n", "empty/a.txt": ""})
	m, err := manifest.Read([]string{"absent.yaml", "bad.yaml", "empty", "pod.yaml"}, nil)
	want := `stat absent.yaml: no such file or directory
bad.yaml:1: line 1: did not find expected node content
no .yaml, .yml or .json file in directory empty: subdirectories are not read`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.Workloads) != 1 {
		t.Errorf("%d workloads, want that of the valid file", len(m.Workloads))
	}
}

func TestRead_SizeLimit(t *testing.T) {
	large := strings.NewReader(strings.Repeat("#", kube.MaxManifest+2))
	_, err := manifest.Read([]string{"-"}, large)
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
		"s.yaml":    "no pod or pod template in s.yaml: found only Service",
		"list.yaml": "no pod or pod template in list.yaml",
	} {
		if _, err := manifest.ReadPods([]string{path}, nil); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestList_Errors(t *testing.T) {
	if files, err := manifest.List(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Errorf("got %v for an absent directory", files)
	}
}
