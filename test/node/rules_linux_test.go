// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// testNodeRules runs pods through a shim with a node rule: one that it matches, whose container
// has the result of the rule, and one with a kubelet of other facts, which keeps its DNS.
func (m *machine) testNodeRules(t *testing.T) {
	for name, want := range map[string]cri.Outcome{"rule-applies": cri.Edited, "rule-other-facts": cri.FactsMismatch} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(name, corev1.PodSpec{})
			hook := m.hook(t, pod)
			node := facts()
			node.Rules = []policy.NodeRule{{PodLabels: pod.Labels, Options: []string{"ndots:2"}, HostSearches: []string{}}}
			kubelet := hook.Engine
			hook.Engine = engine(t, node)
			s := m.startShim(t, hook)
			request := s.sandboxOf(kubelet, m.host(), pod)
			if want == cri.FactsMismatch {
				request.DnsConfig.Servers = []string{"10.96.0.99"}
			}
			v, err := s.runPod(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if r := s.nextReport(t, pod); r.Outcome != want {
				t.Errorf("the shim reports %s (%s), want %s", r.Outcome, r.Detail, want)
			}
			expected := requested(request, m.host())
			if want == cri.Edited {
				d := hook.Engine.Decide(kube.FromPod(pod), m.host())
				expected = d.Config()
			}
			if diff := cmp.Diff(expected, v.config()); diff != "" {
				t.Errorf("resolv.conf (-want +got):\n%s", diff)
			}
			if got := slices.Contains(v.config().Options, "ndots:2"); got != (want == cri.Edited) {
				t.Errorf("options %q", v.config().Options)
			}
		})
	}
}
