// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// settings are what the files and the flags of a shim say together, checked.
type settings struct {
	v1alpha1.ShimConfiguration
	node   config.Node
	engine *policy.Engine
	mode   cri.Mode
	drain  time.Duration
}

func newSettings(c v1alpha1.ShimConfiguration, n config.Node) (settings, error) {
	s := settings{ShimConfiguration: c, node: n}
	engine, err := n.Engine()
	if err != nil {
		return s, err
	}
	s.engine = engine
	if s.mode, err = cri.ParseMode(c.Mode); err != nil {
		return s, err
	}
	s.drain, err = config.ParseDrainTimeout(c.DrainTimeout)
	return s, err
}

// needRestart names the fields that count only when a shim starts, and of which next
// says something else than s.
func (s settings) needRestart(next settings) []string {
	return changed([]setting{
		{"listen", s.Listen, next.Listen},
		{"runtimeEndpoint", s.RuntimeEndpoint, next.RuntimeEndpoint},
		{"kubeconfig", s.Kubeconfig, next.Kubeconfig},
		{"manifests", s.Manifests, next.Manifests},
		{"http", s.HTTP, next.HTTP},
		{"drainTimeout", s.DrainTimeout, next.DrainTimeout},
		{"node.nodeName", s.node.Name, next.node.Name},
	})
}
