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

// nodeRules decides with and without the node rules of a configuration file.
type nodeRules struct {
	Node config.Node

	with, without *policy.Engine
	host          resolvconf.File
}

// loadNodeRules reads the node rules of a ShimConfiguration or an AgentConfiguration, and the files
// with the facts of the node. No other kind has rules.
func loadNodeRules(f config.File) (*nodeRules, error) { return loadRules(f, config.File.Node) }

// loadFieldRules is loadNodeRules for a file whose paths are those of another machine: it has the
// node of [config.File.NodeOfFields].
func loadFieldRules(f config.File) (*nodeRules, error) {
	return loadRules(f, func(f config.File, _ string) (config.Node, error) { return f.NodeOfFields() })
}

func loadRules(f config.File, node func(config.File, string) (config.Node, error)) (*nodeRules, error) {
	kind, err := f.Kind()
	if err != nil {
		return nil, err
	}
	if kind != v1alpha1.KindShim && kind != v1alpha1.KindAgent {
		return nil, fmt.Errorf("%s: kind %s has no node rules: use -f with a %s or an %s only",
			f.Path, kind, v1alpha1.KindShim, v1alpha1.KindAgent)
	}
	r := &nodeRules{}
	if r.Node, err = node(f, kind); err != nil {
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

// decide returns the decision for a pod without the rules and with them.
func (r *nodeRules) decide(pod policy.Pod) (before, after policy.Decision) {
	return r.without.Decide(pod, r.host), r.with.Decide(pod, r.host)
}
