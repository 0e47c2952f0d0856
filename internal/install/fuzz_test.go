// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
)

// FuzzReadKubelet has other texts in the drop-in of kubeadm's package, in the file of the
// operator's flags and in the kubelet's configuration. The files are new, and their result can be read.
func FuzzReadKubelet(f *testing.F) {
	f.Add(kubeadmText, "KUBELET_EXTRA_ARGS=--v=2\n", kind)
	f.Add(strings.Replace(kubeadmText, "EnvironmentFile=-/etc/default/kubelet", `Environment="A=b" 'KUBELET_EXTRA_ARGS=-v 3'`, 1),
		"KUBELET_EXTRA_ARGS=\"--v=2 \\\n --container-runtime-endpoint=unix:///x\"", kind+"containerRuntimeEndpoint: unix:///y\n")
	f.Add("[Service]\nExecStart=-/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml \\\n --v=2 ${A}\n",
		"; comment\nA='", `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}`)
	root := kubeadmNode.write(f)
	write := func(t *testing.T, name, text string) {
		t.Helper()
		path := filepath.Join(string(root), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, dropIn, environment, configuration string) {
		write(t, kubeadm, dropIn)
		write(t, "/etc/default/kubelet", environment)
		write(t, config, configuration)
		k, err := install.ReadKubelet(root, "kubelet.service")
		if err != nil {
			return
		}
		files, err := k.Files(listen)
		if err != nil {
			return
		}
		for _, f := range files {
			path := filepath.Join(string(root), f.Path)
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s exists", f.Path)
			}
			write(t, f.Path, f.Text)
			defer os.Remove(path)
		}
		after, err := install.ReadKubelet(root, "kubelet.service")
		if err != nil {
			t.Fatalf("after %v: %v", files, err)
		}
		if !after.Uses(strings.TrimPrefix(listen, "unix://")) {
			t.Errorf("after %v: the endpoint is %s of %s", files, after.Endpoint, after.Origin)
		}
	})
}
