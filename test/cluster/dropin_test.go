// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	_ "unsafe" // for go:linkname

	_ "k8s.io/kubernetes/cmd/kubelet/app" // has mergeKubeletConfigurations
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// mergeKubeletConfigurations is the kubelet's function for --config-dir.
//
//go:linkname mergeKubeletConfigurations k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func mergeKubeletConfigurations(*kubeletconfig.KubeletConfiguration, string) ([]string, error)

// dropInLines are the lines of generated files.
var dropInLines = []string{
	"clusterDNS: [10.96.0.10]\n", "clusterDNS: [192.0.2.1, 192.0.2.2]\n", "clusterDNS: []\n",
	"clusterDNS: null\n", "clusterdns: [192.0.2.3]\n", "ClusterDNS: [192.0.2.4]\n",
	"clusterDomain: cluster.local\n", "clusterDomain: other.example\n", "clusterDomain: ''\n",
	"clusterDomain: null\n", "CLUSTERDOMAIN: upper.example\n",
	"resolvConf: /run/resolv.conf\n", "resolvConf: relative\n", "resolvConf: ''\n", "resolvConf: null\n", "resolvconf: /lower\n",
	"maxPods: 5\n",
}

// TestDropIns compares the merge of generated files with the kubelet's.
func TestDropIns(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		s, seen := head, map[byte]bool{}
		for range random.IntN(4) {
			line := dropInLines[random.IntN(len(dropInLines))]
			if key := line[len(line)/3]; !seen[key] || random.IntN(2) == 0 {
				s, seen[key] = s+line, true
			}
		}
		return s
	}
	compared := 0
	for i := range 2000 {
		dir := t.TempDir()
		path := filepath.Join(dir, "kubelet.yaml")
		base := text()
		writeDropIn(t, path, base)
		var dropIns []kube.KubeletDropIn
		for j := range random.IntN(4) {
			d := kube.KubeletDropIn{Path: filepath.Join(dir, "d", fmt.Sprintf("%d.conf", j)), Data: []byte(text())}
			writeDropIn(t, d.Path, string(d.Data))
			dropIns = append(dropIns, d)
		}
		want, wantErr := kubeletMerge(t, path, filepath.Join(dir, "d"), len(dropIns) > 0)
		c, err := kube.ParseKubeletConfiguration([]byte(base))
		if c.ResolvConf != nil && *c.ResolvConf == "relative" {
			*c.ResolvConf = filepath.Join(dir, "relative")
		}
		if err == nil {
			c, _, err = kube.MergeKubeletDropIns(c, dropIns)
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("case %d: %v, the kubelet: %v\n%s%s", i, err, wantErr, base, dropIns)
		}
		if err != nil {
			continue
		}
		compared++
		resolvConf := kube.DefaultResolvConf
		if c.ResolvConf != nil {
			resolvConf = *c.ResolvConf
		}
		if !slices.Equal(c.ClusterDNS, want.ClusterDNS) || c.ClusterDomain != want.ClusterDomain || resolvConf != want.ResolverConfig {
			t.Fatalf("case %d: got %q %q %q, the kubelet has %q %q %q\n%s%s", i,
				c.ClusterDNS, c.ClusterDomain, resolvConf, want.ClusterDNS, want.ClusterDomain, want.ResolverConfig, base, dropIns)
		}
	}
	if compared < 1000 {
		t.Errorf("%d of 2000 cases are valid", compared)
	}
}

func writeDropIn(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}

// kubeletMerge loads a file and its drop-ins with the code of the kubelet.
func kubeletMerge(t *testing.T, path, dir string, withDropIns bool) (*kubeletconfig.KubeletConfiguration, error) {
	t.Helper()
	loader := must.Get(configfiles.NewFsLoader(&utilfs.DefaultFs{}, path))(t)
	c, err := loader.Load(t.Context())
	if err == nil && withDropIns {
		_, err = mergeKubeletConfigurations(c, dir)
	}
	return c, err
}
