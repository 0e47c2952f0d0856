// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The directories in which container runtimes keep the files of sandboxes.
const (
	containerdSandboxes = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
	crioSandboxes       = "/run/containers/storage/overlay-containers"
	k3sSandboxes        = "/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes"
)

// AgentConfig is a validated AgentConfiguration.
type AgentConfig struct {
	v1alpha1.AgentConfiguration

	Node   nodefacts.Node
	Engine *policy.Engine
}

// AgentKind describes the file of the command agent.
func AgentKind() *config.Kind[AgentConfig] {
	return &config.Kind[AgentConfig]{
		Check: checkAgent,
		Finish: func(c *AgentConfig, s *config.Source[AgentConfig]) (err error) {
			c.Node, c.Engine, err = nodefacts.NewServerNode(c.NodeServerConfiguration, s)
			return err
		},
	}
}

// Mode returns the mode of the agent.
func (c *AgentConfig) Mode() cri.Mode { return cri.Mode(c.AgentConfiguration.Mode) }

func checkAgent(c *AgentConfig, p *config.Problems) {
	if len(c.SandboxDirectories) == 0 {
		c.SandboxDirectories = []string{containerdSandboxes, crioSandboxes, k3sSandboxes}
	}
	nodefacts.CheckRules(&c.AgentConfiguration.Node, p)
	if c.InCluster && c.Kubeconfig != "" {
		p.AddConflict("inCluster", "kubeconfig")
	}
}
