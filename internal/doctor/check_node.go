// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// findNodeCacheNotReady returns the nodes without a ready pod of a node cache that should run there. An affinity
// may exclude a node without any pod. Tenants may have DaemonSets that look like a node cache.
func findNodeCacheNotReady(v *view) (hits []hit) {
	listed := map[string]bool{}
	for _, d := range v.nodeCaches {
		ready, lines := v.podsOf(&d)
		affinity := d.Spec.Template.Spec.Affinity
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if v.isLate() {
				return nil
			}
			line := lines[n.Name]
			if line == "" && (affinity == nil || affinity.NodeAffinity == nil) {
				line = fmt.Sprintf("no pod of DaemonSet %s/%s on the node", d.Namespace, d.Name)
			}
			if line != "" && !listed[n.Name] && !ready[n.Name] && runsOn(&d, n) {
				listed[n.Name] = true
				hits = append(hits, found(object{"Node", "", n.Name}, "the node cache is not ready", line))
			}
		}
	}
	return hits
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
