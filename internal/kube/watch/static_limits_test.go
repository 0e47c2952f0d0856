// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestStaticPods_Size covers both sides of the limit of a manifest, in a directory that is
// created after the first reading.
func TestStaticPods_Size(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests")
	var got map[types.NamespacedName]policy.Pod
	s := staticPods{path: path, node: "Node", publish: func(pods map[types.NamespacedName]policy.Pod) { got = pods }}
	if failed := s.read(); got == nil || len(got) != 0 || failed[path] == nil {
		t.Errorf("got %v, %v", got, failed)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	for _, c := range []struct {
		text  string
		found bool
	}{
		{pod, true},
		{pod + strings.Repeat("\n", maxManifest+1-len(pod)), false},
		{pod + strings.Repeat("\n", maxManifest-len(pod)), true},
	} {
		if err := os.WriteFile(filepath.Join(path, "p"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		failed := s.read()
		if _, ok := got[types.NamespacedName{Namespace: "default", Name: "p-node"}]; ok != c.found || ok != (len(failed) == 0) {
			t.Errorf("%d bytes: %v, %v", len(c.text), got, failed)
		}
	}
}
