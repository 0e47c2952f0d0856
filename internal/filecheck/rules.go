// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package filecheck

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Rules decides with and without the node rules of a configuration file.
type Rules struct {
	Node config.Node

	with, without *policy.Engine
	host          resolvconf.File
}

// LoadRules reads the node rules of a ShimConfiguration or an AgentConfiguration. No other kind
// has any.
func LoadRules(f config.File) (*Rules, error) {
	kind, err := f.Kind()
	if err != nil {
		return nil, err
	}
	if kind != v1alpha1.KindShim && kind != v1alpha1.KindAgent {
		return nil, fmt.Errorf("%s: kind %s has no node rules: use -f with a %s or an %s only",
			f.Path, kind, v1alpha1.KindShim, v1alpha1.KindAgent)
	}
	r := &Rules{}
	if r.Node, err = f.Node(kind); err != nil {
		return nil, err
	}
	if r.with, err = r.Node.Engine(); err != nil {
		return nil, err
	}
	plain := r.Node
	plain.Rules = nil
	if r.without, err = plain.Engine(); err != nil {
		return nil, err
	}
	r.host, _ = r.Node.Host()
	return r, nil
}

// Decide returns the decision for a pod without the rules and with them.
func (r *Rules) Decide(pod policy.Pod) (before, after policy.Decision) {
	return r.without.Decide(pod, r.host), r.with.Decide(pod, r.host)
}
