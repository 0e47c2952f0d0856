// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestStaticPods compares the rules with the kubelet for manifests of static pods, which no API
// server validates: each is refused by both or by neither. The manifests are generated pods,
// valid and invalid, on nodes with valid and invalid names.
func TestStaticPods(t *testing.T) {
	const manifests = 8000
	nodes := []string{"node-1", "worker.east.example", "Worker-1", "worker_2"}
	var list []cases.Case
	for c := range cases.Generate(7, manifests) {
		i := len(list)
		c.Manifest, c.NodeName = true, nodes[i%len(nodes)]
		if c.NodeName != "node-1" && i%3 > 0 {
			c.NodeName = "node-1" // most manifests are on a valid node
		}
		c.Pod = staticManifest(c.Pod, i)
		list = append(list, c)
	}
	rules := vectors.DefaultNode().Rules(t)
	count := map[bool]int{}
	for i, a := range ask(t, list) {
		refused := a.ErrorStage == cases.DecodeStage
		count[refused]++
		text := manifestError(t, rules, list[i])
		if (text != "") != refused {
			t.Errorf("%s\nkubelet: %q\nrules: %q", list[i].String(), a.Error, text)
		}
	}
	t.Logf("refused or not: %v", count)
	if count[true] < manifests/10 || count[false] < manifests/10 {
		t.Error("too few of a kind")
	}
}

// staticManifest returns pod as a manifest with a name of its own, and without what only an API
// server sets.
func staticManifest(pod *corev1.Pod, i int) *corev1.Pod {
	m := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d-%s", i, pod.Name), Namespace: pod.Namespace, Annotations: pod.Annotations},
		Spec:       pod.Spec,
	}
	m.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c"}}
	if i%10 == 0 {
		m.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{pod.Name}}}
	}
	return m
}

// manifestError returns the error of the command render for a static pod.
func manifestError(t *testing.T, rules *admission.Rules, c cases.Case) string {
	t.Helper()
	text := must.Get(json.Marshal(c.Pod))(t)
	m, err := kube.ParseManifest("pod.json", text)
	if err != nil {
		return "invalid manifest: " + err.Error()
	}
	o := cli.AdmissionObject(m.Workloads[0].OnNode("default", c.Node()), c.Node())
	findings := must.Get(rules.AddRefusals(t.Context(), o, nil))(t)
	return admission.ManifestError(o, findings)
}
