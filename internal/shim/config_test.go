// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
		must.Succeed(t, os.WriteFile(path, []byte(tt.file), 0o600))
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		source := Kind().FromFlags(flags)
		must.Succeed(t, flags.Parse(append(tt.flags, "--config", path)))
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
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		if got := LogFormat(Kind().FromFile(path)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := LogFormat(Kind().FromFile("/dev/zero")); got != "text" {
		t.Errorf("an endless file: %s", got)
	}
}

// TestSource_ErrorLocations: each error carries the file, the line and the field, and its text
// begins with them.
func TestSource_ErrorLocations(t *testing.T) {
	const header = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a value", header + "mode: Guess\n", []string{`3:1 mode | "Guess": want Generate, Force or Observe`}},
		{"an item", header + "node:\n  nodeIPs: [192.0.2.1, x]\n", []string{`4:24 node.nodeIPs[1] | "x" is not an IP address`}},
		{"below an item", header + "node:\n  rules:\n  - options: ['']\n",
			[]string{`5:15 node.rules[0].options[0] | "": is not an option of resolv.conf(5)`}},
		{"a type", header + "node: {nodeName: [1]}\n", []string{"3:8 node.nodeName | is a list, must be a string"}},
		{"an unknown field", header + "modus: Force\n", []string{
			`3:1  | unknown field "modus": dnsconfigurer config defaults ShimConfiguration prints all fields`,
		}},
		{"not YAML", header + "mode: [\n", []string{"3:0  | did not find expected node content"}},
		{"no facts", header, []string{"none | node facts missing: set node.kubeletConfig, or node.clusterDNS, " +
			"node.clusterDomain and node.resolvConf, each of which may be empty"}},
		{"a missing field", header + "node: {clusterDNS: [], clusterDomain: '', resolvConf: ''}\n",
			[]string{"3:1 node.nodeName | missing: set it in the file, or as --node-name"}},
		{"no cluster DNS", header + "node: {clusterDNS: [], clusterDomain: '', resolvConf: '', nodeName: worker}\nmode: Force\n",
			[]string{"4:1 mode | Force without a cluster DNS would give pods the host's DNS: " +
				"set clusterDNS in the kubelet's configuration, or as node.clusterDNS"}},
		{"Fail without an API server", header + "onUnknownPod: Fail\n", []string{
			`3:1 onUnknownPod | "Fail": without a kubeconfig no pod of the API server would start: set kubeconfig`}},
		{"Fail in mode Observe", header + "mode: Observe\nonUnknownPod: Fail\n", []string{
			`4:1 onUnknownPod | "Fail": mode Observe changes nothing: want "Passthrough"`}},
		{"an invalid domain", header + "node: {clusterDNS: [], clusterDomain: 'a b', resolvConf: '', nodeName: worker}\n",
			[]string{`3:24 node.clusterDomain | "a b": want one DNS name, such as cluster.local`}},
		{"two", header + "mode: Guess\nlookupTimeout: 1h\n", []string{
			`3:1 mode | "Guess": want Generate, Force or Observe`, `4:1 lookupTimeout | "1h": want 100ms to 30s`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const path = "shim.yaml"
			_, err := Kind().FromText(config.File{Path: path, Text: []byte(tt.text)}).Load()
			if err == nil {
				t.Fatal("no error")
			}
			var got []string
			for _, e := range excerpt.Unjoin(err) {
				in, ok := errors.AsType[*document.InputError](e)
				if !ok {
					got = append(got, "none | "+e.Error())
					continue
				}
				got = append(got, fmt.Sprintf("%d:%d %s | %v", in.Line, in.Column, in.Field, in.Err))
				if text := in.Name() + ": " + in.Err.Error(); in.File != path || e.Error() != text {
					t.Errorf("%s: text %q, want %q", in.File, e, text)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
