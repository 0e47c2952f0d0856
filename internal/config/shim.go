// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// ReadShim reads a ShimConfiguration. Relative paths of its node field are resolved from
// the directory of the file, as in the kubelet's file.
func ReadShim(f *Files, path string) (v1alpha1.ShimConfiguration, error) {
	c, err := ReadAs(f, path, v1alpha1.ParseShim, func(c v1alpha1.ShimConfiguration) error {
		_, mode := cri.ParseMode(c.Mode)
		_, drain := ParseDrainTimeout(c.DrainTimeout)
		return errors.Join(mode, drain)
	})
	if err == nil {
		ResolveNodePaths(path, &c.Node)
	}
	return c, err
}

// ResolveNodePaths resolves the relative paths in c from the directory of file.
func ResolveNodePaths(file string, c *v1alpha1.NodeConfiguration) {
	c.KubeletConfig = relativeTo(file, c.KubeletConfig)
	c.UplinkResolvConf = relativeTo(file, c.UplinkResolvConf)
	if c.ResolvConf != nil {
		*c.ResolvConf = relativeTo(file, *c.ResolvConf)
	}
}

// ParseDrainTimeout parses the field of that name. "" is the zero duration.
func ParseDrainTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("drainTimeout %q: want a duration of more than 0, such as 4s", s)
	}
	return d, nil
}
