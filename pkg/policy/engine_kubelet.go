// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"

// KubeletConfig returns the DNS configuration that the kubelet of the node computes for pod,
// with the options in any order. It differs from the configuration of [Engine.Decide] for
// the input of docs/compatibility.md: a kubelet writes unsafe values, and it knows neither
// Pod.Override nor ClusterFirstWithAutopath nor Node.Rules.
//
// If a kubelet has computed another configuration, compared with [resolvconf.Config.Equal],
// the Node or the host file is not the kubelet's. A kubelet starts no pod with a host file
// that it refuses; the result is then what the readable lines give.
func (e *Engine) KubeletConfig(pod Pod, host resolvconf.File) resolvconf.Config {
	pod.Override = ""
	if canonicalPolicy(pod.Policy) == ClusterFirstWithAutopath {
		pod.Policy = "" // as every policy that a kubelet does not know
	}
	if e.node.ResolvConf == "" {
		host = resolvconf.File{}
	}
	d := Decision{hostFile: e.hostFilePath(host), kubelet: true}
	if e.applyBase(&d, &pod, e.effectivePolicy(&d, &pod), &host, noChanges()) {
		d.mergeConfig(pod.Config, noChanges())
		d.applyLimits()
	}
	return d.Config()
}
