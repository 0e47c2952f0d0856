// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Agrees tells whether config, which a kubelet computed for pod, is what the engine
// expects of a kubelet with these facts: the order of options aside, and values
// that the kubelet writes and the engine leaves out (docs/divergences.md, D3 and
// D4). Where it is not, the facts about the node are wrong, or older or newer than
// the kubelet's. The override of pod does not count: no kubelet knows it.
func (e *Engine) Agrees(pod Pod, host resolvconf.File, config resolvconf.Config) bool {
	pod.Override = ""
	d := e.Decide(pod, host)
	safe := resolvconf.Config{
		Nameservers: without(config.Nameservers, KindNameserver),
		Searches:    without(config.Searches, KindSearch),
		Options:     without(config.Options, KindOption),
	}
	return d.Config().Equal(safe)
}

// without returns values without the unsafe ones.
func without(values []string, k Kind) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return unsafe(k, v) })
}
