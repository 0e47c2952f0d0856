// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadFile_Size: files of MaxFile bytes are read, larger ones are errors that name the file.
func TestReadFile_Size(t *testing.T) {
	for _, size := range []int{MaxFile, MaxFile + 1} {
		dir := t.TempDir()
		kubelet, dropIn := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "d", "dns.conf")
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
		text += strings.Repeat("\n", size-len(text))
		if err := errors.Join(os.Mkdir(filepath.Dir(dropIn), 0o700), os.WriteFile(kubelet, []byte(text), 0o600),
			os.WriteFile(dropIn, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func() error{
			kubelet: func() error { _, err := ReadFile(kubelet); return err },
			"the kubelet's configuration: " + kubelet: func() error { _, err := readKubelet(&files{}, kubelet, ""); return err },
			"reading the kubelet's drop-ins: " + dropIn: func() error {
				_, err := readKubelet(&files{}, "", filepath.Dir(dropIn))
				return err
			},
		} {
			want := "<nil>"
			if size > MaxFile {
				want = name + ": larger than 4194304 bytes: a configuration file has a few kilobytes"
			}
			if err := read(); fmt.Sprint(err) != want {
				t.Errorf("%d bytes: %v, want %s", size, err, want)
			}
		}
	}
}

// TestSource_EndlessFile: a server that starts with a file without an end reports it.
func TestSource_EndlessFile(t *testing.T) {
	_, err := ShimKind().FromFile("/dev/zero").Load()
	if err == nil || !strings.HasPrefix(err.Error(), "/dev/zero: larger than") {
		t.Errorf("%v", err)
	}
	if listen, _, _ := readEndpoints("/dev/zero"); listen != "" {
		t.Errorf("endpoint %q", listen)
	}
}
