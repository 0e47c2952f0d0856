// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// TestLoadEndpoints: a flag, the file as far as it can be decoded, the others, the default.
func TestLoadEndpoints(t *testing.T) {
	last := Endpoints{Listen: "unix:///last", Runtime: "unix:///last-runtime", HTTP: "last:1"}
	inherited := Endpoints{Listen: "/inherited"}
	for _, tt := range []struct {
		name, file string
		flags      []string
		others     []Endpoints
		want       Endpoints
	}{
		{"nothing", "", nil, nil, Endpoints{v1alpha1.DefaultShimListen, defaultRuntime, ""}},
		{"file", "listen: /file\nruntimeEndpoint: unix:///file-runtime\nhttp: file:1\nunknown: 5\nmode: 7\n",
			nil, []Endpoints{last}, Endpoints{"unix:///file", "unix:///file-runtime", "file:1"}},
		{"flag over file", "listen: /file\n", []string{"--listen=unix:/flag"}, []Endpoints{last},
			Endpoints{"unix:///flag", "unix:///last-runtime", "last:1"}},
		{"undecodable file", "listen: [", nil, []Endpoints{last, inherited}, last},
		{"undecodable file, nothing else", "listen: [", nil, []Endpoints{{}, inherited},
			Endpoints{"unix:///inherited", defaultRuntime, ""}},
		{"a value of another type", "listen: 5\nhttp: [a]\n", nil, []Endpoints{last}, last},
		{"a list", "- a\n", nil, nil, Endpoints{v1alpha1.DefaultShimListen, defaultRuntime, ""}},
		{"unusable http", "http: nonsense\n", nil, nil, Endpoints{v1alpha1.DefaultShimListen, defaultRuntime, ""}},
	} {
		path := filepath.Join(t.TempDir(), "shim.yaml")
		if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		source := Kind().FromFlags(flags)
		if err := flags.Parse(append(tt.flags, "--config", path)); err != nil {
			t.Fatal(err)
		}
		if got, err := LoadEndpoints(source, tt.others...); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

const defaultRuntime = "unix:///run/containerd/containerd.sock"

// TestLogFormat: the shim has a log before it has a valid configuration.
func TestLogFormat(t *testing.T) {
	for text, want := range map[string]string{
		"logFormat: json\nmode: 7\n": "json", "logFormat: xml\n": "text", "logFormat: [": "text", "": "text",
	} {
		path := filepath.Join(t.TempDir(), "shim.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := LogFormat(Kind().FromFile(path)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := LogFormat(Kind().FromFile("/dev/zero")); got != "text" {
		t.Errorf("an endless file: %s", got)
	}
}
