// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write the decisions into the golden files")

// TestDecide_Golden compares decisions with the files in testdata. Each file has a pod, the
// expected resolv.conf and explanation, and optionally a host file and a node.
func TestDecide_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkGolden(t, file) })
	}
}

func checkGolden(t *testing.T, path string) {
	archive := must.Get(txtar.ParseFile(path))(t)
	in := map[string][]byte{}
	for _, f := range archive.Files {
		in[f.Name] = f.Data
	}
	engine := must.Get(policy.New(goldenNode(t, in["node.yaml"])))(t)
	var pod corev1.Pod
	must.Succeed(t, yaml.UnmarshalStrict(in["pod.yaml"], &pod))
	host := resolvconf.Parse(string(in["host"]))
	if _, found := in["host"]; !found {
		_, err := os.Open("/nonexistent/resolv.conf")
		host = resolvconf.File{Err: err}
	}

	d := engine.Decide(kube.FromPod(&pod), host)

	got := map[string]string{"resolv.conf": d.Config().String(), "explain": d.Explain()}
	for i, f := range archive.Files {
		text, found := got[f.Name]
		if !found {
			continue
		}
		delete(got, f.Name)
		if *update {
			archive.Files[i].Data = []byte(text)
		} else if diff := cmp.Diff(string(f.Data), text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
	if *update {
		must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
	for name := range got {
		t.Errorf("the file has no section %s", name)
	}
}

// goldenNode parses a node; the default is a node as kubeadm configures it.
func goldenNode(t *testing.T, text []byte) policy.Node {
	in := struct {
		ClusterDNS    []netip.Addr `json:"clusterDNS"`
		ClusterDomain string       `json:"clusterDomain"`
		ResolvConf    string       `json:"resolvConf"`
		NodeIPs       []netip.Addr `json:"nodeIPs"`
		NodeCache     netip.Addr   `json:"nodeCache"`
		Fallback      bool         `json:"clusterDNSFallback"`

		AllowedOverrides []policy.Policy   `json:"allowedOverrides"`
		Rules            []policy.NodeRule `json:"rules"`
	}{[]netip.Addr{netip.MustParseAddr("10.96.0.10")}, "cluster.local", "/etc/resolv.conf", nil, netip.Addr{}, false, nil, nil}
	must.Succeed(t, yaml.UnmarshalStrict(text, &in))
	return policy.Node{
		ClusterDNS: in.ClusterDNS, ClusterDomain: in.ClusterDomain, ResolvConf: in.ResolvConf, IPs: in.NodeIPs,
		Autopath:         policy.Autopath{NodeCache: in.NodeCache, ClusterDNSFallback: in.Fallback},
		AllowedOverrides: in.AllowedOverrides, Rules: in.Rules,
	}
}
