// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func TestFromPod_Fields(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u",
			Annotations: map[string]string{"dnsconfigurer.dev/policy": "ClusterFirstWithAutopath"},
		},
		Spec: corev1.PodSpec{
			DNSPolicy: "Default", HostNetwork: true, OS: &corev1.PodOS{Name: corev1.Windows},
			Hostname: "h", Subdomain: "s", HostnameOverride: new("o"), SetHostnameAsFQDN: new(true),
			DNSConfig: &corev1.PodDNSConfig{
				Nameservers: []string{"192.0.2.1"}, Searches: []string{"a"},
				Options: []corev1.PodDNSConfigOption{{Name: "rotate"}, {Name: "ndots", Value: new("2")}, {Name: "edns0", Value: new("")}},
			},
		},
	}
	want := policy.Pod{
		Namespace: "shop", Name: "web", UID: "u",
		Policy: policy.Default, Override: policy.ClusterFirstWithAutopath, HostNetwork: true, Windows: true,
		Hostname: "h", Subdomain: "s", HostnameOverride: new("o"), SetHostnameAsFQDN: true,
		Config: &policy.DNSConfig{
			Nameservers: []string{"192.0.2.1"}, Searches: []string{"a"},
			Options: []policy.Option{{Name: "rotate"}, {Name: "ndots", Value: "2"}, {Name: "edns0"}},
		},
	}
	if diff := cmp.Diff(want, kube.FromPod(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.Pod{}, kube.FromPod(&corev1.Pod{})); diff != "" {
		t.Errorf("empty pod (-want +got):\n%s", diff)
	}
}

func TestStaticPod_Defaults(t *testing.T) {
	manifest := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd"}}
	pod := kube.StaticPod(manifest, "Worker.Example")
	if pod.Name != "etcd-worker.example" || pod.Namespace != "default" ||
		pod.Spec.DNSPolicy != "ClusterFirst" || pod.Spec.NodeName != "Worker.Example" {
		t.Errorf("got %s/%s %s on %s", pod.Namespace, pod.Name, pod.Spec.DNSPolicy, pod.Spec.NodeName)
	}
	if manifest.Name != "etcd" {
		t.Error("the manifest was changed")
	}
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	if again := kube.StaticPod(pod, "worker"); again != pod {
		t.Errorf("a pod with ConfigSourceAnnotation was renamed to %s", again.Name)
	}
}

// TestWorkload_OnNode: a manifest is that of a static pod, and a pod that the API server has is not.
func TestWorkload_OnNode(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod){
		"web-node-1 shop": func(*corev1.Pod) {},
		"web shop":        func(p *corev1.Pod) { p.UID = "1" },
		"web bank": func(p *corev1.Pod) {
			p.Namespace, p.OwnerReferences = "bank", []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}}
		},
		"web a": func(p *corev1.Pod) { p.Namespace, p.Spec.NodeName = "a", "node-2" },
		"web b": func(p *corev1.Pod) { p.Namespace, p.Status.Phase = "b", corev1.PodRunning },
	} {
		p := &corev1.Pod{}
		p.Name = "web"
		change(p)
		w := kube.Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Pod: p}.OnNode("shop", "node-1")
		if got := w.Pod.Name + " " + w.Pod.Namespace; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseStaticPod_Errors(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\n" +
		"metadata: {name: etcd, annotations: {kubernetes.io/config.source: file}}\nspec: {dnsPolicy: Default}\n"
	got, err := kube.ParseStaticPod([]byte("# a comment\n---\n"+pod+"future: 1\n---\nkind: [\n"), "Node-1")
	if err != nil || got.Namespace != "default" || got.Name != "etcd-node-1" ||
		got.Spec.DNSPolicy != "Default" || got.Spec.NodeName != "Node-1" {
		t.Errorf("got %v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":         "",
		"bad YAML":      "a: [\n",
		"not an object": "[1]",
		"other kind":    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n",
		"a list":        "apiVersion: v1\nkind: PodList\nitems: []\n",
		"no name":       "apiVersion: v1\nkind: Pod\n",
		"wrong type":    "apiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n",
	} {
		if got, err := kube.ParseStaticPod([]byte(text), "n"); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func FuzzParseStaticPod(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\nspec: {dnsPolicy: Default}\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"etcd","namespace":"kube-system"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod, err := kube.ParseStaticPod(text, "Node")
		if (pod == nil) != (err != nil) {
			t.Fatalf("%v with error %v", pod, err)
		}
		if err == nil && (!strings.HasSuffix(pod.Name, "-node") || pod.Namespace == "" || pod.Spec.DNSPolicy == "") {
			t.Errorf("%s/%s %q", pod.Namespace, pod.Name, pod.Spec.DNSPolicy)
		}
	})
}

func TestParseKubeletConfiguration_Fields(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	got, err := kube.ParseKubeletConfiguration(
		[]byte(head + "clusterDNS: [10.96.0.10, bad]\nclusterDomain: Cluster.Local.\nresolvConf: \"\"\n" +
			"maxPods: 250\nfutureField: {a: 1}\n"))
	want := kube.KubeletConfiguration{ClusterDNS: []string{"10.96.0.10", "bad"}, ClusterDomain: "Cluster.Local.", ResolvConf: new("")}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := kube.ParseKubeletConfiguration([]byte(head)); err != nil || got.ResolvConf != nil {
		t.Errorf("without resolvConf: %+v, %v", got, err)
	}
	if got, err := kube.ParseKubeletConfiguration([]byte(head + "clusterDomain: a\nclusterDomain: b\n")); err != nil ||
		got.ClusterDomain != "b" {
		t.Errorf("a duplicate key: %+v, %v", got, err)
	}
	got, err = kube.ParseKubeletConfiguration(
		[]byte(head + "clusterDns: [10.96.0.10]\nResolvConf: x\nclusterDomain: a\nCLUSTERDOMAIN: b\nmaxpods: 1\n"))
	want = kube.KubeletConfiguration{ClusterDomain: "a", Misspelled: []string{"CLUSTERDOMAIN", "ResolvConf", "clusterDns"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("keys in other case: %v (-want +got):\n%s", err, diff)
	}
	for name, text := range map[string]string{
		"other kind": "apiVersion: v1\nkind: Pod\n",
		"empty":      "",
		"bad YAML":   "a: [\n",
		"wrong type": head + "clusterDNS: 10.96.0.10\n",
	} {
		if _, err := kube.ParseKubeletConfiguration([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseKubeletConfiguration(f *testing.F) {
	f.Add([]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [a]\nresolvConf: x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := kube.ParseKubeletConfiguration(text); err != nil && !cmp.Equal(c, kube.KubeletConfiguration{}) {
			t.Errorf("error %v with a result", err)
		}
	})
}

func TestIsWindows_Affinity(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "disk", Operator: corev1.NodeSelectorOpExists},
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
		}}
	}
	for _, tt := range []struct {
		name  string
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		{"no term", nil, false},
		{"Windows", []corev1.NodeSelectorTerm{in("kubernetes.io/os", "windows")}, true},
		{"Linux", []corev1.NodeSelectorTerm{in("kubernetes.io/os", "linux")}, false},
		{"both", []corev1.NodeSelectorTerm{in("kubernetes.io/os", "linux", "windows")}, false},
		{"another label", []corev1.NodeSelectorTerm{in("os", "windows")}, false},
		{"one term of two", []corev1.NodeSelectorTerm{in("kubernetes.io/os", "windows"), in("os", "x")}, false},
		{"two terms", []corev1.NodeSelectorTerm{in("kubernetes.io/os", "windows"), in("kubernetes.io/os", "windows")}, true},
	} {
		spec := corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tt.terms},
		}}}
		if got := kube.IsWindows(&spec); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

const dropInHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// mergeDropIns merges texts into a configuration with a value in every field.
func mergeDropIns(texts ...string) (kube.KubeletConfiguration, map[string]string, error) {
	base := kube.KubeletConfiguration{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", ResolvConf: new("/r")}
	var dropIns []kube.KubeletDropIn
	for i, text := range texts {
		dropIns = append(dropIns, kube.KubeletDropIn{Path: fmt.Sprintf("%d.conf", i), Data: []byte(text)})
	}
	return kube.MergeKubeletDropIns(base, dropIns)
}

func TestMergeKubeletDropIns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"none", nil, `[10.96.0.10] cluster.local "/r" map[]`},
		{"another field", []string{dropInHead + "maxPods: 5\n"}, `[10.96.0.10] cluster.local "/r" map[]`},
		{"a list replaces", []string{dropInHead + "clusterDNS: [192.0.2.1, 192.0.2.2]\n"},
			`[192.0.2.1 192.0.2.2] cluster.local "/r" map[clusterDNS:0.conf]`},
		{"the last wins", []string{dropInHead + "clusterDomain: a\n", dropInHead + "clusterDomain: b\n"},
			`[10.96.0.10] b "/r" map[clusterDomain:1.conf]`},
		{"empty values", []string{dropInHead + "clusterDNS: []\nclusterDomain: ''\nresolvConf: ''\n"},
			`[]  "" map[clusterDNS:0.conf clusterDomain:0.conf resolvConf:0.conf]`},
		{"null removes", []string{dropInHead + "clusterDNS: null\nclusterDomain: null\nresolvConf: null\n"}, `[]  none map[]`},
		{"another case counts", []string{dropInHead + "clusterdns: [192.0.2.1]\n"},
			`[192.0.2.1] cluster.local "/r" map[clusterDNS:0.conf]`},
		{"an upper case name comes first", []string{dropInHead + "ClusterDomain: a\n"},
			`[10.96.0.10] cluster.local "/r" map[clusterDomain:0.conf]`},
	} {
		got, origins, err := mergeDropIns(tt.texts...)
		resolvConf := "none"
		if got.ResolvConf != nil {
			resolvConf = fmt.Sprintf("%q", *got.ResolvConf)
		}
		if text := fmt.Sprintf("%v %s %s %v", got.ClusterDNS, got.ClusterDomain, resolvConf, origins); err != nil || text != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.name, text, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"":                            `1.conf: is "", must be`,
		"kind: Pod\napiVersion: v1\n": `1.conf: is "v1 Pod", must be`,
		dropInHead + "clusterDNS: [":  "1.conf: line ",
		dropInHead + "clusterDNS: []\nclusterDNS: []\n": "already set",
		dropInHead + "clusterDNS: 10.96.0.1\n":          "cannot unmarshal string",
	} {
		if _, _, err := mergeDropIns(dropInHead, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzMergeKubeletDropIns(f *testing.F) {
	f.Add("clusterDNS: [a]\nresolvConf: x\n", "clusterdns: null\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		_, _, _ = mergeDropIns(dropInHead+first, dropInHead+second)
	})
}
