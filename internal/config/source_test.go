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

// The kinds of the tests, without the checks of the servers.
type (
	dns       struct{ v1alpha1.DNSConfiguration }
	nodeCache struct {
		v1alpha1.NodeCacheConfiguration
	}
	shim    struct{ v1alpha1.ShimConfiguration }
	agent   struct{ v1alpha1.AgentConfiguration }
	webhook struct{ v1alpha1.WebhookConfiguration }
)

func dnsKind() *Kind[dns] {
	return &Kind[dns]{Check: func(c *dns, p *Problems) {
		if len(c.Manifests) > 0 && (c.Kubeconfig != "" || c.Snapshot != "") {
			p.AddConflict("manifests", "kubeconfig", "snapshot")
		}
	}}
}

// newDNSSource returns a source with these arguments.
func newDNSSource(t *testing.T, args ...string) *Source[dns] {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := dnsKind().FromFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return source
}

// TestSource_Load has flags and a file that name the same fields.
func TestSource_Load(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "ttl: 0\npods: disabled\nupstreams: [192.0.2.1]\nclusterDomain: file.example\n")
	c, err := newDNSSource(t, "--config", path, "--upstream=192.0.2.2,192.0.2.3", "--upstream", "192.0.2.4",
		"--cluster-domain", "Flag.Example.").Load()
	if err != nil {
		t.Fatal(err)
	}
	if *c.TTL != 0 || c.Pods != "disabled" || c.ClusterDomain != "flag.example" ||
		c.Lameduck != "0s" || *c.ResolvConf != "/etc/resolv.conf" ||
		!slices.Equal(c.Upstreams, []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"}) || !slices.Equal(c.Listen, []string{"127.0.0.1:53"}) {
		t.Errorf("%+v", c)
	}
}

// TestSource_Merged: flags and file are validated together, so that a value is checked against
// the values that the server uses, and a flag can end a conflict in the file.
func TestSource_Merged(t *testing.T) {
	for _, tt := range []struct{ name, fields, flag string }{
		{"a flag that ends a conflict", "manifests: [m]\nkubeconfig: k\n", "--kubeconfig="},
		{"a flag that replaces an invalid value", "http: x\n", "--http=127.0.0.1:9153"},
	} {
		if _, err := newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, tt.fields), tt.flag).Load(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSource_Errors(t *testing.T) {
	manifests := newFile(t, v1alpha1.KindDNS, "manifests: [m]\n")
	for _, tt := range []struct {
		name   string
		source *Source[dns]
		want   string
		flag   bool
	}{
		{"in the file", newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, "ttl: 3601\nlisten: [a]\n")), "listen[0]: ", false},
		{"in a flag", newDNSSource(t, "--config", manifests, "--listen", "a"), `--listen: "a" is not an IP address with a port`, true},
		{"two flags", newDNSSource(t, "--manifests", "m", "--kubeconfig", "k"),
			"--manifests: cannot be combined with --kubeconfig or snapshot", true},
		{"flag and file", newDNSSource(t, "--config", manifests, "--kubeconfig", "k"),
			manifests + ":3:1: manifests: cannot be combined with --kubeconfig or " + manifests + ":1:1: snapshot", false},
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
	load := func(fields string) dns {
		t.Helper()
		c, err := dnsKind().FromFile(newFile(t, v1alpha1.KindDNS, fields)).Load()
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
		{"listen: ['127.0.0.1:53']\nttl: 5\nclusterDomain: Cluster.Local.\npods: insecure\nlameduck: 0s\n", nil},
		{"upstreams: [192.0.2.1]\nresolvConf: ''\nstubDomains: [{zone: a, servers: [192.0.2.1]}]\n", nil},
		{"logFormat: json\nlisten: ['127.0.0.2:53']\nsnapshot: p\n",
			[]string{"logFormat", "listen", "snapshot"}},
	} {
		if got := dnsKind().NeedRestart(running, load(tt.fields)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, got, tt.want)
		}
	}
}

// TestProblem_Overlaps: an error of a field hides those of its parts and of its parents, which may follow from it, and
// not those of a field whose name begins alike.
func TestProblem_Overlaps(t *testing.T) {
	for paths, want := range map[[2]string]bool{
		{"listen", "listen"}:                      true,
		{"listen", "listen[1]"}:                   true,
		{"listen[1]", "listen"}:                   true,
		{"node", "node.clusterDNS"}:               true,
		{"listen[1]", "listen[10]"}:               false,
		{"clusterDNS", "clusterDNSFallback"}:      false,
		{"stubDomains[0].zone", "stubDomains[1]"}: false,
	} {
		first, second := problem{paths: []string{paths[0]}}, problem{paths: []string{paths[1]}}
		if got := first.overlaps(second); got != want {
			t.Errorf("%q: got %t, want %t", paths, got, want)
		}
	}
}
