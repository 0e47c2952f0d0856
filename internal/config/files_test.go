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

// TestReadFile_Size: a file of MaxFile bytes is read. A larger one is an error that names it, also if
// it is a kubelet's.
func TestReadFile_Size(t *testing.T) {
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "d", "large.conf")
	if err := errors.Join(os.Mkdir(filepath.Dir(large), 0o700), os.WriteFile(good, make([]byte, MaxFile), 0o600),
		os.WriteFile(large, make([]byte, MaxFile+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFile(good); err != nil || len(f.Text) != MaxFile {
		t.Errorf("%d bytes, %v", len(f.Text), err)
	}
	_, fileErr := ReadFile(large)
	_, kubeletErr := readKubelet(&files{}, large, "")
	_, dropInErr := readKubelet(&files{}, "", filepath.Dir(large))
	for prefix, err := range map[string]error{
		"": fileErr, "the kubelet's configuration: ": kubeletErr, "reading the kubelet's drop-ins: ": dropInErr,
	} {
		want := prefix + large + ": larger than 4194304 bytes: a configuration file has a few kilobytes"
		if fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
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
