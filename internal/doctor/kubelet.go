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
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
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

// kubeletChecks are about the configurations with which the kubelets run.
func kubeletChecks() []Check {
	return []Check{
		{
			Code: "kubelets-disagree", Severity: policy.SeverityWarning,
			What:  "a kubelet has another cluster DNS or cluster domain than most others",
			cause: "the DNS configuration of a pod depends on its node",
			next:  "kubectl get --raw /api/v1/nodes/$NAME/proxy/configz; correct the configuration of this kubelet and restart it",
			needs: []need{needRunning}, whole: []Kind{Kubelets}, find: findKubeletsDisagree,
		},
		{
			Code: "kubelet-config-drift", Severity: policy.SeverityWarning,
			What:  "kubelets run with another configuration than that of kubelet-config",
			cause: "the ConfigMap was changed without the nodes, or the nodes without the ConfigMap: new nodes get the ConfigMap's",
			next:  "kubeadm upgrade node phase kubelet-config on the nodes, or correct the ConfigMap",
			needs: []need{needRunning, needKubeletConfig}, whole: []Kind{Kubelets}, find: findKubeletDrift,
		},
	}
}

// needRunning is the configuration of at least one kubelet that runs.
func needRunning(v *view) (string, bool) { return v.Unread[Kubelets], len(v.running) > 0 }

func needKubeletConfig(v *view) (string, bool) {
	return v.unreadConfigMap(systemNamespace, KubeletConfigMap), v.kubeletConfig != nil
}

func findKubeletsDisagree(v *view) (hits []hit) {
	groups := v.kubeletsByDNS()
	most := groups[0]
	for _, g := range groups[1:] {
		for _, k := range g {
			hits = append(hits, hit{
				object: k.source, message: "its kubelet has other DNS settings than most others",
				evidence: []string{
					fmt.Sprintf("%s: %s", k.source, k.dns()),
					fmt.Sprintf("%d of %d kubelets, such as that of %s: %s", len(most), len(v.running), most[0].source, most[0].dns()),
				},
			})
		}
	}
	return hits
}

func findKubeletDrift(v *view) (hits []hit) {
	for _, g := range v.kubeletsByDNS() {
		if g[0].dns() == v.kubeletConfig.dns() {
			continue
		}
		hits = append(hits, hit{
			object: v.kubeletConfig.source, message: fmt.Sprintf("%d of %d kubelets run with other DNS settings", len(g), len(v.running)),
			evidence: []string{fmt.Sprintf("%s: %s", v.kubeletConfig.source, v.kubeletConfig.dns()),
				fmt.Sprintf("%s: %s", g[0].source, g[0].dns())},
		})
	}
	return hits
}
