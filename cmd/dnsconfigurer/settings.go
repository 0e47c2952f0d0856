// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// settings are what the files and the flags of a shim say together, checked.
type settings struct {
	v1alpha1.ShimConfiguration
	node   node
	engine *policy.Engine
	mode   cri.Mode
	drain  time.Duration
}

func newSettings(c v1alpha1.ShimConfiguration, n node) (settings, error) {
	s := settings{ShimConfiguration: c, node: n}
	engine, err := n.engine()
	if err != nil {
		return s, err
	}
	s.engine = engine
	if s.mode, err = cri.ParseMode(c.Mode); err != nil {
		return s, err
	}
	s.drain, err = drainTimeout(c.DrainTimeout)
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
		{"node.nodeName", s.node.name, next.node.name},
	})
}

// checkValues checks what the decoder lets pass: that texts are values of their field.
func checkValues(c v1alpha1.ShimConfiguration) error {
	_, mode := cri.ParseMode(c.Mode)
	_, drain := drainTimeout(c.DrainTimeout)
	return errors.Join(mode, drain)
}

// drainTimeout parses the field of that name.
func drainTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("drainTimeout %q: want a time of more than 0, as 4s", s)
	}
	return d, nil
}
