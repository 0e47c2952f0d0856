// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
)

// TestLoadConfig_FIFO: the kubeconfig of a server, and the files that it names, are regular files or links
// to one, as in a volume of a pod. A FIFO would block the server for ever.
func TestLoadConfig_FIFO(t *testing.T) {
	dir := t.TempDir()
	fifo, token, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "token"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(name, cluster, user string) string {
		path := filepath.Join(dir, name)
		text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"%s}}], users: [{name: u, user: {%s}}]}`, cluster, user)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		fifo: "is not a regular file",
		write("ca", ", certificate-authority: fifo", ""): "certificate-authority: " + fifo + ": is not a regular file",
		write("cert", "", "client-certificate: fifo"):    "client-certificate: " + fifo + ": is not a regular file",
		write("key", "", "client-key: fifo"):             "client-key: " + fifo + ": is not a regular file",
		write("pipe", "", "tokenFile: fifo"):             "tokenFile: " + fifo + ": is not a regular file",
		write("device", "", "tokenFile: /dev/zero"):      "tokenFile: /dev/zero: is not a regular file",
	} {
		if _, err := cluster.LoadConfig(path, "test"); fmt.Sprint(err) != "kubeconfig "+path+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := os.Symlink(write("good", "", "tokenFile: token"), link); err != nil {
		t.Fatal(err)
	}
	if cfg, err := cluster.LoadConfig(link, "test"); err != nil || cfg.BearerToken != "secret" {
		t.Errorf("%v, %v", cfg, err)
	}
}

// TestLoadUserConfig_Environment: a device in $KUBECONFIG would take all memory. /dev/null is an empty file,
// as for kubectl.
func TestLoadUserConfig_Environment(t *testing.T) {
	for path, want := range map[string]string{
		"/dev/zero": "kubeconfig /dev/zero: is a device, not a file",
		"/dev/null": "no kubeconfig found in $KUBECONFIG and ~/.kube/config: set --kubeconfig",
	} {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing")+":"+path)
		if _, err := cluster.LoadUserConfig("", "", "test"); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
