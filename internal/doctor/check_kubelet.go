// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

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
