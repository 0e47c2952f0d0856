// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// nodeChecks are about the kubelets and the DNS caches on nodes.
func nodeChecks() []Check {
	return []Check{
		{
			Code: "kubelet-no-cluster-dns", Severity: policy.SeverityError, What: "the kubelets have no cluster DNS",
			cause: "pods with the policy ClusterFirst get the resolv.conf of the node",
			next:  "set clusterDNS in the KubeletConfiguration of the nodes, and in the ConfigMap kube-system/kubelet-config",
			needs: []need{needKubelet}, find: findNoClusterDNS,
		},
		{
			Code: "nodecache-missing", Severity: policy.SeverityError,
			What:  "the kubelets give pods the address of a node cache that does not exist",
			cause: "a link-local address is served by a DNS cache on each node; without it no server replies there",
			next:  "kubectl -n kube-system get daemonsets; install the node cache, or set clusterDNS to the address of the DNS Service",
			needs: []need{needKubelet, read(DaemonSets)}, find: findNodeCacheMissing,
		},
		{
			Code: "nodecache-not-ready", Severity: policy.SeverityError, What: "a node has no ready pod of the node cache",
			cause: "pods on this node get no replies from the node cache",
			next:  "kubectl get pods -A -o wide --field-selector spec.nodeName=$NAME",
			needs: []need{read(DaemonSets, Nodes, Pods)}, find: findNodeCacheNotReady,
		},
	}
}

func findNoClusterDNS(v *view) []hit {
	if len(v.clusterDNS) > 0 {
		return nil
	}
	return []hit{{
		object: v.kubelet.source, message: "clusterDNS has no address",
		evidence: []string{"clusterDNS: [" + strings.Join(v.kubelet.ClusterDNS, ", ") + "]"},
	}}
}

func findNodeCacheMissing(v *view) (hits []hit) {
	for _, a := range v.clusterDNS {
		if a.IsLinkLocalUnicast() && len(v.nodeCaches) == 0 {
			hits = append(hits, hit{
				object: v.kubelet.source, message: fmt.Sprintf(
					"clusterDNS is %s, and no DaemonSet is a node cache",
					a,
				),
				evidence: []string{"clusterDNS: " + a.String(), "no DaemonSet of NodeLocal DNSCache or of dnsconfigurer"},
			})
		}
	}
	return hits
}

func findNodeCacheNotReady(v *view) (hits []hit) {
	found := map[string]bool{} // nodes: tenants may have DaemonSets that look like a node cache
	for _, d := range v.nodeCaches {
		ready, lines := v.podsOf(&d)
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if v.isLate() {
				return nil
			}
			if found[n.Name] || ready[n.Name] || !runsOn(&d, n) {
				continue
			}
			if line := nodeCacheLine(&d, lines[n.Name]); line != "" {
				found[n.Name] = true
				hits = append(hits,
					hit{object: object{"Node", "", n.Name}, message: "the node cache is not ready", evidence: []string{line}})
			}
		}
	}
	return hits
}

// nodeCacheLine returns why a node has no ready pod of a DaemonSet: the state of its pod, or that
// there is none, unless an affinity may exclude the node.
func nodeCacheLine(d *appsv1.DaemonSet, state string) string {
	if state != "" || hasAffinity(d) {
		return state
	}
	return fmt.Sprintf("no pod of DaemonSet %s/%s on the node", d.Namespace, d.Name)
}

func hasAffinity(d *appsv1.DaemonSet) bool {
	a := d.Spec.Template.Spec.Affinity
	return a != nil && a.NodeAffinity != nil
}

// podsOf returns the nodes with a ready pod of a DaemonSet, and the states of the others.
func (v *view) podsOf(d *appsv1.DaemonSet) (ready map[string]bool, lines map[string]string) {
	ready, lines = map[string]bool{}, map[string]string{}
	for _, p := range v.byNamespace[d.Namespace] {
		if v.isLate() {
			break
		}
		if d.Spec.Selector == nil || !selects(d.Spec.Selector.MatchLabels, p.Labels) {
			continue
		}
		if isReady(p) {
			ready[p.Spec.NodeName] = true
		} else {
			lines[p.Spec.NodeName] = podLine(p)
		}
	}
	return ready, lines
}

// runsOn reports whether a DaemonSet has a pod on a node, as far as its node selector and the
// taints of the node determine it.
func runsOn(d *appsv1.DaemonSet, n *corev1.Node) bool {
	if !selects(d.Spec.Template.Spec.NodeSelector, n.Labels) {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			continue // which the pods of a DaemonSet tolerate
		}
		if !tolerates(d.Spec.Template.Spec.Tolerations, taint) {
			return false
		}
	}
	return true
}

func tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	for _, t := range tolerations {
		effect := t.Effect == "" || t.Effect == taint.Effect
		exists := t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == taint.Key)
		if effect && (exists || t.Key == taint.Key && t.Value == taint.Value) {
			return true
		}
	}
	return false
}

// lastChange returns when the data of an object last changed, as far as is known.
func lastChange(c *corev1.ConfigMap) time.Time {
	last := c.CreationTimestamp.Time
	for _, m := range c.ManagedFields {
		if m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
