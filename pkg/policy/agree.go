// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Matches reports whether config, which a kubelet computed, is the configuration of d. It
// ignores the order of options and the unsafe values that a kubelet writes and an
// Engine drops (docs/divergences.md, D4 and D3).
//
// A kubelet does not know Pod.Override. If a decision for a pod without one does not
// match, the Node or the host file of the decision is not the kubelet's.
func (d *Decision) Matches(config resolvconf.Config) bool {
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
