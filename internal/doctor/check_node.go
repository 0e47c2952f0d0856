// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// networkDaemons are the names of DaemonSets without which a node does not reach Services or pods of other nodes.
const networkDaemons = "kube-proxy calico-node canal cilium kube-flannel kube-flannel-ds weave-net antrea-agent aws-node kindnet azure-cni"

// findNodePodsNotReady leaves out nodes that are not ready: there the pods follow from the node.
func findNodePodsNotReady(v *view) []hit {
	daemons := slices.DeleteFunc(slices.Clone(v.DaemonSets), func(d appsv1.DaemonSet) bool {
		return !d.Spec.Template.Spec.HostNetwork || !slices.Contains(strings.Fields(networkDaemons), d.Name)
	})
	hits := append(v.notReady(daemons, "kube-proxy or the network plugin is not ready"),
		v.notReady(v.nodeCaches, "the node cache is not ready")...)
	return slices.DeleteFunc(hits, func(h hit) bool {
		i := slices.IndexFunc(v.Nodes, func(n corev1.Node) bool { return n.Name == h.object.name })
		return !hasCondition(&v.Nodes[i], corev1.NodeReady)
	})
}

// findLocalTraffic returns the nodes from which no pod reaches the DNS Service, because it keeps queries on their node.
func findLocalTraffic(v *view) []hit {
	if ptr.Deref(v.dns.Spec.InternalTrafficPolicy, "") != corev1.ServiceInternalTrafficPolicyLocal {
		return nil
	}
	var evidence []string
	for i := range v.Nodes {
		n := &v.Nodes[i]
		isServed := slices.ContainsFunc(v.endpoints, func(e endpoint) bool { return e.ready && e.node == n.Name })
		if !isServed && hasCondition(n, corev1.NodeReady) {
			evidence = append(evidence, "no ready endpoint on node "+n.Name)
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	message := fmt.Sprintf("internalTrafficPolicy is Local, and %d of %d nodes have no ready endpoint", len(evidence), len(v.Nodes))
	return []hit{found(serviceObject(v.dns), message, evidence...)}
}

// notReady returns the nodes without a ready pod of DaemonSets that should run there. An affinity may exclude a node
// without any pod. Tenants may have DaemonSets that look like a node cache.
func (v *view) notReady(daemons []appsv1.DaemonSet, message string) (hits []hit) {
	listed := map[string]bool{}
	for _, d := range daemons {
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
				hits = append(hits, found(object{"Node", "", n.Name}, message, line))
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
	return !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			return false // the pods of a DaemonSet tolerate it
		}
		return !slices.ContainsFunc(d.Spec.Template.Spec.Tolerations, func(t corev1.Toleration) bool {
			exists := t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == taint.Key)
			return (t.Effect == "" || t.Effect == taint.Effect) && (exists || t.Key == taint.Key && t.Value == taint.Value)
		})
	})
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

// Kubelet is the configuration with which the kubelet of a node runs.
type Kubelet struct {
	Node   string
	Config kube.KubeletConfiguration
}

// kubeletFacts is a configuration of kubelets, and the object from which it was read.
type kubeletFacts struct {
	kube.KubeletConfiguration
	source object
	addrs  []netip.Addr // of ClusterDNS, those that are addresses
}

// dns returns what pods get from the kubelet, for comparison and as evidence.
func (k *kubeletFacts) dns() string {
	return fmt.Sprintf("clusterDNS [%s], clusterDomain %q", strings.Join(k.ClusterDNS, ", "),
		strings.ToLower(strings.TrimSuffix(k.ClusterDomain, ".")))
}

// readKubelets sets the configurations of the kubelets: those with which they run, if they were
// read, and the one that kubeadm keeps for them.
func (v *view) readKubelets() {
	add := func(c kube.KubeletConfiguration, source object) *kubeletFacts {
		return &kubeletFacts{c, source, parseAddrs(c.ClusterDNS)}
	}
	for _, k := range v.Kubelets {
		v.running = append(v.running, add(k.Config, object{kind: "Node", name: k.Node}))
	}
	slices.SortFunc(v.running, func(a, b *kubeletFacts) int { return cmp.Compare(a.source.name, b.source.name) })
	if c := v.configMap(KubeletConfigMap); c == nil {
		v.kubeletErr = cmp.Or(v.unreadConfigMap(KubeletConfigMap),
			"there is no ConfigMap kube-system/kubelet-config: this installer does not keep the "+
				"kubelets' configuration in the API; set --kubelets")
	} else if k, err := kube.ParseKubeletConfiguration([]byte(c.Data["kubelet"])); err != nil {
		v.kubeletErr = fmt.Sprintf("ConfigMap kube-system/kubelet-config: %v", err)
	} else {
		v.kubeletConfig = add(k, object{"ConfigMap", KubeletConfigMap.Namespace, KubeletConfigMap.Name})
	}
	v.kubelet = v.kubeletConfig
	if len(v.running) > 0 {
		v.kubelet = v.running[0]
	}
	if v.kubelet != nil {
		v.clusterDNS, v.kubeletDomain = v.kubelet.addrs, v.kubelet.ClusterDomain
	}
}

// parseAddrs returns the texts that are addresses.
func parseAddrs(texts []string) (list []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}

// needRunning is the configuration of at least one kubelet that runs.
func needRunning(v *view) (string, bool) { return v.Unread[Kubelets], len(v.running) > 0 }

// findKubeletDrift compares the kubelets that run with kubelet-config, or, without it, with most others.
func findKubeletDrift(v *view) (hits []hit) {
	settings, groups := groupBy(v.running, (*kubeletFacts).dns)
	slices.SortStableFunc(settings, func(a, b string) int { return cmp.Compare(len(groups[b]), len(groups[a])) })
	want := cmp.Or(v.kubeletConfig, groups[settings[0]][0])
	for _, dns := range settings {
		g := groups[dns]
		if dns == want.dns() {
			continue
		}
		evidence := []string{fmt.Sprintf("%s: %s", want.source, want.dns())}
		for _, k := range g[:min(len(g), maxLines)] {
			evidence = append(evidence, fmt.Sprintf("%s: %s", k.source, k.dns()))
		}
		message := fmt.Sprintf("%d of %d kubelets run with other DNS settings", len(g), len(v.running))
		hits = append(hits, found(want.source, message, moreLine(evidence, len(g), len(evidence)-1)...))
	}
	return hits
}
