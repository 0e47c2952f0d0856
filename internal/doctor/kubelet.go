// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

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

func newKubeletFacts(c kube.KubeletConfiguration, source object) *kubeletFacts {
	k := &kubeletFacts{KubeletConfiguration: c, source: source}
	for _, text := range c.ClusterDNS {
		if addr, err := netip.ParseAddr(text); err == nil {
			k.addrs = append(k.addrs, addr.Unmap())
		}
	}
	return k
}

// dns returns what pods get from the kubelet, for comparison and as evidence.
func (k *kubeletFacts) dns() string {
	return fmt.Sprintf("clusterDNS [%s], clusterDomain %q", strings.Join(k.ClusterDNS, ", "),
		strings.ToLower(strings.TrimSuffix(k.ClusterDomain, ".")))
}

// readKubelets sets the configurations of the kubelets: those with which they run, if they were
// read, and the one that kubeadm keeps for them.
func (v *view) readKubelets() {
	for _, k := range v.Kubelets {
		v.running = append(v.running, newKubeletFacts(k.Config, object{kind: "Node", name: k.Node}))
	}
	slices.SortFunc(v.running, func(a, b *kubeletFacts) int { return cmp.Compare(a.source.name, b.source.name) })
	v.readKubeletConfig()
	v.kubelet = v.kubeletConfig
	if len(v.running) > 0 {
		v.kubelet = v.running[0]
	}
	if v.kubelet != nil {
		v.clusterDNS = v.kubelet.addrs
	}
}

// readKubeletConfig parses the configuration that kubeadm keeps for its kubelets.
func (v *view) readKubeletConfig() {
	c := v.configMap(systemNamespace, KubeletConfigMap)
	if c == nil {
		v.kubeletErr = cmp.Or(
			v.unreadConfigMap(systemNamespace, KubeletConfigMap),
			"there is no ConfigMap kube-system/kubelet-config: this installer does not keep the "+
				"kubelets' configuration in the API; set --kubelets",
		)
		return
	}
	k, err := kube.ParseKubeletConfiguration([]byte(c.Data["kubelet"]))
	if err != nil {
		v.kubeletErr = fmt.Sprintf("ConfigMap kube-system/kubelet-config: %v", err)
		return
	}
	v.kubeletConfig = newKubeletFacts(k, object{"ConfigMap", systemNamespace, KubeletConfigMap})
}

func (v *view) kubeletDomain() string {
	if v.kubelet == nil {
		return ""
	}
	return v.kubelet.ClusterDomain
}

// kubeletsByDNS groups the kubelets that run by what pods get from them, the largest group
// first.
func (v *view) kubeletsByDNS() (groups [][]*kubeletFacts) {
	index := map[string]int{}
	for _, k := range v.running {
		i, ok := index[k.dns()]
		if !ok {
			i = len(groups)
			index[k.dns()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], k)
	}
	slices.SortStableFunc(groups, func(a, b []*kubeletFacts) int { return cmp.Compare(len(b), len(a)) })
	return groups
}

// needRunning is the configuration of at least one kubelet that runs.
func needRunning(v *view) (string, bool) { return v.Unread[Kubelets], len(v.running) > 0 }

// findKubeletDrift compares the kubelets that run with kubelet-config, or, without it, with most others.
func findKubeletDrift(v *view) (hits []hit) {
	groups := v.kubeletsByDNS()
	want := cmp.Or(v.kubeletConfig, groups[0][0])
	for _, g := range groups {
		if g[0].dns() == want.dns() {
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
