// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// Node reads the cluster of o into c, and returns the node of the pod: that of the flags, with the
// facts of the cluster where the flags and their files have none.
func Node(ctx context.Context, o *Options, flags *config.NodeFlags, userAgent string, c *Config) (config.Node, error) {
	api, err := cluster.LoadUserConfig(o.Kubeconfig, o.Context, userAgent)
	if err != nil {
		return config.Node{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	cluster, err := Read(ctx, api, o.PodNamespace())
	if err != nil {
		return config.Node{}, err
	}
	c.Manifest, c.Complete = cluster.Manifest, true
	return flags.LoadFor(cluster.ClusterDNS, cluster.ClusterDomain)
}
