// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// newFile writes a configuration file.
func newFile(t *testing.T, kind, fields string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.yaml")
	writeFile(t, path, kind, fields)
	return path
}

func writeFile(t *testing.T, path, kind, fields string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("apiVersion: "+v1alpha1.GroupVersion+"\nkind: "+kind+"\n"+fields), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newDNSSource returns a source with these arguments.
func newDNSSource(t *testing.T, args ...string) *Source[DNS] {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := DNSKind().FromFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return source
}

// TestSource_RequiredByFlag: a flag can set what the file does not.
func TestSource_RequiredByFlag(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := NodeCacheKind().FromFlags(flags)
	if err := flags.Parse([]string{"--config", newFile(t, v1alpha1.KindNodeCache, ""), "--cluster-dns", "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if c, err := source.Load(); err != nil || len(c.Forward.Cluster) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestSource_Load has flags and a file that name the same fields.
func TestSource_Load(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "ttl: 9\npods: disabled\nupstreams: [192.0.2.1]\nclusterDomain: file.example\n")
	c, err := newDNSSource(t, "--config", path, "--ttl", "0", "--resolv-conf", "r", "--cluster-domain", "Flag.Example.").Load()
	if err != nil {
		t.Fatal(err)
	}
	if *c.TTL != 0 || c.Pods != "disabled" || c.Domain.String() != "flag.example." ||
		c.ClusterDomain != "flag.example" || c.SnapshotWait == 0 {
		t.Errorf("%+v", c)
	}
	// --resolv-conf is without effect beside the file's upstreams.
	if len(c.Forward.Upstreams) > 0 || c.Forward.ResolvConf != "r" {
		t.Errorf("%+v", c.Forward)
	}
}

// TestSource_EmptyFlag: an empty --kubelet-config does not override the file. Other empty
// flags do.
func TestSource_EmptyFlag(t *testing.T) {
	path := newFile(t, v1alpha1.KindShim, "node: {kubeletConfig: /k, resolvConf: /r}\n")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := ShimKind().FromFlags(flags)
	if err := flags.Parse([]string{"--config", path, "--kubelet-config=", "--resolv-conf="}); err != nil {
		t.Fatal(err)
	}
	c, err := source.read()
	if err != nil {
		t.Fatal(err)
	}
	source.applyFlags(&c)
	if n := c.ShimConfiguration.Node; n.KubeletConfig != "/k" || *n.ResolvConf != "" {
		t.Errorf("kubeletConfig %q, resolvConf %q, want /k and none", n.KubeletConfig, *n.ResolvConf)
	}
}

// TestSource_Merged: flags and file are validated together, so that a value is checked against
// the values that the server uses, and a flag can end a conflict in the file.
func TestSource_Merged(t *testing.T) {
	for _, tt := range []struct{ name, fields, flag string }{
		{"a flag that fits the file", "clusterDomain: cluster.example\n", "--autopath-suffix=local"},
		{"a flag that ends a conflict", "manifests: [m]\nkubeconfig: k\n", "--kubeconfig="},
		{"a flag that replaces an invalid value", "ttl: 3601\n", "--ttl=5"},
	} {
		if _, err := newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, tt.fields), tt.flag).Load(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	conflict := newFile(t, v1alpha1.KindDNS, "clusterDomain: b.local\n")
	_, err := newDNSSource(t, "--config", conflict, "--autopath-suffix=local").Load()
	if _, isFlag := errors.AsType[usage.Error](err); !isFlag {
		t.Errorf("a suffix above the file's domain: %v", err)
	}
}

func TestSource_Errors(t *testing.T) {
	manifests := newFile(t, v1alpha1.KindDNS, "manifests: [m]\n")
	for _, tt := range []struct {
		name   string
		source *Source[DNS]
		want   string
		flag   bool
	}{
		{"in the file", newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, "ttl: 3601\nlisten: [a]\n")), "listen[0]: ", false},
		{"in a flag", newDNSSource(t, "--config", manifests, "--listen", "a"), `--listen: "a" is not an IP address with a port`, true},
		{"two flags", newDNSSource(t, "--manifests", "m", "--kubeconfig", "k"),
			"--manifests: cannot be combined with --kubeconfig or --snapshot", true},
		{"flag and file", newDNSSource(t, "--config", manifests, "--kubeconfig", "k"),
			manifests + ": manifests: cannot be combined with --kubeconfig or " + manifests + ": snapshot.path", false},
	} {
		_, err := tt.source.Load()
		_, isFlag := errors.AsType[usage.Error](err)
		if err == nil || isFlag != tt.flag {
			t.Errorf("%s: %v, a usage.Error: %v, want %v", tt.name, err, isFlag, tt.flag)
		}
		if tt.name != "in the file" && err.Error() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, err, tt.want)
		}
	}
}

// TestSource_Changed: a change is reported when two polls have found the same.
func TestSource_Changed(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "")
	source := newDNSSource(t, "--config", path)
	load := func() {
		t.Helper()
		if _, err := source.Load(); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(name string, want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := source.Changed(); got != w {
				t.Errorf("%s, poll %d: %v, want %v", name, i, got, w)
			}
		}
	}
	load()
	expect("unchanged", false, false)
	writeFile(t, path, v1alpha1.KindDNS, "ttl: 1\n")
	expect("changed", false, true, true)
	load()
	expect("loaded", false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("removed", false, true)
	writeFile(t, path, v1alpha1.KindDNS, "ttl: 1\n")
	expect("restored", false, false)
}

// TestKind_NeedRestart compares values and not their spelling.
func TestKind_NeedRestart(t *testing.T) {
	load := func(fields string) DNS {
		t.Helper()
		c, err := DNSKind().FromFile(newFile(t, v1alpha1.KindDNS, fields)).Load()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	running := load("")
	for _, tt := range []struct {
		fields string
		want   []string
	}{
		{"listen: ['127.0.0.1:53']\nttl: 5\nclusterDomain: Cluster.Local.\nednsOption: 65313\npods: insecure\nlameduck: 0s\n", nil},
		{"upstreams: [192.0.2.1]\nresolvConf: ''\nstubDomains: [{zone: a, servers: [192.0.2.1]}]\n", nil},
		{"logFormat: json\nlisten: ['127.0.0.2:53']\nsnapshot: {path: p, maxAge: 1h}\n",
			[]string{"listen", "snapshot.path", "snapshot.maxAge", "logFormat"}},
	} {
		if got := DNSKind().NeedRestart(running, load(tt.fields)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, got, tt.want)
		}
	}
}
