// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestReadKubelet_DropIns reads the directory of --config-dir in the kubelet's order, and notices
// files that are added.
func TestReadKubelet_DropIns(t *testing.T) {
	dir := t.TempDir()
	writeKubelet := func(name, fields string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path,
			[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields), 0o600))
	}
	shim := "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
		"node: {kubeletConfig: kubelet.yaml, kubeletConfigDir: kubelet.d, nodeName: worker}\n"
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "shim.yaml"), []byte(shim), 0o600))
	writeKubelet("kubelet.yaml", "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: r\n")
	writeKubelet("kubelet.d/20-dns.conf", "clusterDNS: [192.0.2.20]\n")
	writeKubelet("kubelet.d/10-dns.conf", "clusterDNS: [192.0.2.10]\nclusterDomain: ten.example\n")
	writeKubelet("kubelet.d/30-sub/x.conf", "clusterDomain: sub.example\n")
	writeKubelet("kubelet.d/40-dns.yaml", "clusterDNS: [192.0.2.40]\n") // another extension
	source := explainedKind(clusterNode()).FromFile(filepath.Join(dir, "shim.yaml"))
	expect := func(want string) {
		t.Helper()
		c, err := source.Load()
		if got := fmt.Sprint(c.Node.ClusterDNS, " ", c.Node.ClusterDomain, " ", c.Node.ResolvConf); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	expect("[192.0.2.20] sub.example " + dir + "/r")
	changed := func() bool { // at the second of two polls
		t.Helper()
		if source.Changed() {
			t.Error("changed at the first poll")
		}
		return source.Changed()
	}
	if changed() {
		t.Error("changed without a change")
	}
	writeKubelet("kubelet.d/50.conf", "clusterDNS: [192.0.2.50]\nresolvConf: relative\n")
	if !changed() {
		t.Error("a file that is added is not noticed")
	}
	expect("[192.0.2.50] sub.example /relative")
	writeKubelet("kubelet.d/50.conf", "clusterDNS: [192.0.2.51]\nresolvConf: null\n")
	if !changed() {
		t.Error("a file that changes is not noticed")
	}
	expect("[192.0.2.51] sub.example /etc/resolv.conf")
	must.Succeed(t, os.RemoveAll(filepath.Join(dir, "kubelet.d")))
	if _, err := source.Load(); err == nil { // as the kubelet
		t.Error("without the directory: no error")
	}
}

// TestReadKubelet_RelativePath: without a drop-in that sets it, a relative resolvConf starts at
// the directory of the kubelet's file, which may be relative, too.
func TestReadKubelet_RelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	text := []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: r\n")
	must.Succeed(t, errors.Join(os.Mkdir("node", 0o700), os.WriteFile("node/kubelet.yaml", text, 0o600), os.Mkdir("empty", 0o700)))
	for _, dir := range []string{"", "empty"} {
		c := v1alpha1.NodeConfiguration{KubeletConfig: "node/kubelet.yaml", KubeletConfigDir: dir}
		if n, err := readKubelet(noSource(), c); err != nil || n.ResolvConf != "node/r" {
			t.Errorf("drop-ins %q: %q, %v", dir, n.ResolvConf, err)
		}
	}
}

func noSource() *config.Source[explained] { return explainedKind(Node{}).FromFile("") }

// TestReadKubelet_Size: the files of the kubelet have at most config.MaxFile bytes.
func TestReadKubelet_Size(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.conf")
	must.Succeed(t, os.WriteFile(large, make([]byte, config.MaxFile+1), 0o600))
	_, kubeletErr := readKubelet(noSource(), v1alpha1.NodeConfiguration{KubeletConfig: large})
	_, dropInErr := readKubelet(noSource(), v1alpha1.NodeConfiguration{KubeletConfigDir: filepath.Dir(large)})
	for prefix, err := range map[string]error{"the kubelet's configuration: ": kubeletErr, "reading the kubelet's drop-ins: ": dropInErr} {
		want := prefix + large + ": larger than 4194304 bytes: a configuration file has a few kilobytes"
		if fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFlags_HostAssumed: without a file that describes the node its resolv.conf is that of
// this machine.
func TestFlags_HostAssumed(t *testing.T) {
	kubelet := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	must.Succeed(t, os.WriteFile(kubelet, []byte(text), 0o600))
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--cluster-domain", "a.example"}, true},
		{[]string{"--resolv-conf", "/etc/resolv.conf"}, false},
		{[]string{"--resolv-conf="}, false},
		{[]string{"--kubelet-config", kubelet}, false},
	} {
		var f Flags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(flags)
		must.Succeed(t, flags.Parse(tt.args))
		node, err := f.Load()
		if err != nil || node.HostAssumed != tt.want {
			t.Errorf("%q: %v, want %v, %v", tt.args, node.HostAssumed, tt.want, err)
		}
	}
}
