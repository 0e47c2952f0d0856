// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newFile(text string) config.File {
	return config.File{Path: "config.yaml", Text: []byte(text)}
}

// TestFields_EveryKind checks that each kind of api/v1alpha1 has its own checks: an unknown field
// is an error, and the defaults are valid.
func TestFields_EveryKind(t *testing.T) {
	for _, kind := range v1alpha1.Kinds() {
		text, err := v1alpha1.Defaults(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := checkFile(newFile(string(text)), true); err != nil {
			t.Errorf("%s: defaults: %v", kind, err)
		}
		unknown := newFile("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: " + kind + "\nnosuchfield: 1\n")
		for _, fieldsOnly := range []bool{false, true} {
			if _, err := checkFile(unknown, fieldsOnly); err == nil || !strings.Contains(err.Error(), "nosuchfield") {
				t.Errorf("%s: %v: %v", kind, fieldsOnly, err)
			}
		}
	}
}

func TestFile_UnknownKind(t *testing.T) {
	path := newFile("apiVersion: v1\nkind: Pod\n")
	for _, fieldsOnly := range []bool{false, true} {
		if _, err := checkFile(path, fieldsOnly); err == nil || !strings.Contains(err.Error(), `kind: is "Pod"`) {
			t.Errorf("%v", err)
		}
	}
}

// TestFile_Places checks that a finding has the place of its field.
func TestFile_Places(t *testing.T) {
	host := writeFile(t, "nameserver 192.0.2.1\n")
	path := newFile("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: " + host +
		"\nclusterDNS: [10.96.0.10, 10.96.0.300]\n")
	found, err := checkFile(path, false)
	if err != nil || len(found) != 1 || found[0].Line != 4 || found[0].Column == 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestErrorFindings(t *testing.T) {
	if found := errorFindings("a.yaml", nil); len(found) != 0 {
		t.Errorf("%v", found)
	}
	found := errorFindings("a.yaml", errors.Join(
		&kube.InputError{Location: kube.Location{File: "a.yaml", Line: 3, Field: "mode"}, Err: errors.New("one")},
		errors.New("two"),
		&kube.InputError{Location: kube.Location{File: "b.yaml", Line: 3, Field: "mode"}, Err: errors.New("three")}))
	if len(found) != 3 || found[0].Line != 3 || found[0].Field != "mode" || found[0].Message != "one" ||
		found[1].Message != "two" || found[1].Severity != "error" ||
		found[2].File != "a.yaml" || found[2].Line != 0 || found[2].Message != "b.yaml:3: mode: three" {
		t.Errorf("%v", found)
	}
}

// TestRead_ConfigMapSize: the number of files in a ConfigMap is limited, because the positions of
// each cost as much as the whole ConfigMap.
func TestRead_ConfigMapSize(t *testing.T) {
	for n, want := range map[int]string{
		maxFiles:     "<nil>",
		maxFiles + 1: "stdin:2:1: data: more than 32 configuration files in the ConfigMap: check them one by one",
	} {
		text := "kind: ConfigMap\ndata:\n"
		for i := range n {
			text += fmt.Sprintf("  %d.yaml: |\n    kind: DNSConfiguration\n", i)
		}
		entries, _, err := read(t.Context(), "-", strings.NewReader(text))
		if fmt.Sprint(err) != want || err == nil && len(entries) != n {
			t.Errorf("%d files: %d read, %v, want %s", n, len(entries), err, want)
		}
	}
}
