// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Agent is a validated AgentConfiguration.
type Agent struct {
	v1alpha1.AgentConfiguration

	Node   Node
	Engine *policy.Engine
	Lookup time.Duration
	Verify time.Duration // VerifyInterval
	Taint  Taint         // StartupTaint; zero: none
}

// AgentKind describes the file of the command agent.
func AgentKind() *Kind[Agent] {
	return &Kind[Agent]{
		Name: v1alpha1.KindAgent,
		parse: func(data []byte) (Agent, error) {
			c, err := v1alpha1.ParseAgent(data)
			return Agent{AgentConfiguration: c}, err
		},
		resolve: func(c *Agent, file string) { resolveNodePaths(&c.AgentConfiguration.Node, file) },
		finish: func(c *Agent, s *Source[Agent]) (err error) {
			if c.Kubeconfig != "" {
				s.files.track(c.Kubeconfig) // the client reads it
			}
			c.Node, c.Engine, err = finishNode(c.AgentConfiguration.Node, c.Autopath, c.Mode(), s)
			return err
		},
		Fields: slices.Concat(agentFields,
			refreshFields(v1alpha1.DefaultStatusSocket, func(c *Agent) (*v1alpha1.RefreshConfiguration, *time.Duration) {
				return &c.RefreshConfiguration, &c.Verify
			}),
			nodeFields(func(c *Agent) *v1alpha1.NodeConfiguration { return &c.AgentConfiguration.Node }),
			autopathFields(func(c *Agent) *v1alpha1.AutopathConfiguration { return &c.Autopath })),
	}
}

// Mode returns the mode of the agent.
func (c *Agent) Mode() cri.Mode { return cri.Mode(c.AgentConfiguration.Mode) }

var agentFields = []Field[Agent]{
	{
		Path: "listen", Flag: "listen", Restart: true, At: func(c *Agent) any { return &c.Listen },
		Usage: "`SOCKET` for the NRI relay",
		Check: func(c *Agent) error { return parseSocket(&c.Listen, v1alpha1.DefaultAgentListen) },
	},
	{
		Path: "mode", At: func(c *Agent) any { return &c.AgentConfiguration.Mode }, Values: modes,
		Check: func(c *Agent) error { return setDefault(&c.AgentConfiguration.Mode, string(cri.Generate)) },
	},
	lookupTimeoutField(v1alpha1.DefaultAgentLookupTimeout, func(c *Agent) (*string, *time.Duration) {
		return &c.LookupTimeout, &c.Lookup
	}),
	{
		Path: "kubeconfig", Flag: "kubeconfig", At: func(c *Agent) any { return &c.Kubeconfig },
		Usage: kubeconfigUsage,
	},
	{
		Path: "inCluster", Flag: "in-cluster", At: func(c *Agent) any { return &c.InCluster },
		Usage: "look pods up with the service account of the agent's own pod",
		Check: func(c *Agent) error {
			if c.InCluster && c.Kubeconfig != "" {
				return conflictError{[]string{"kubeconfig"}}
			}
			return nil
		},
	},
	{
		Path: "startupTaint", At: func(c *Agent) any { return &c.StartupTaint },
		Check: checkStartupTaint,
	},
	{
		Path: "manifests", Flag: "manifests", At: func(c *Agent) any { return &c.Manifests },
		Usage: manifestsUsage,
	},
	{
		Path: "http", Flag: "http", Restart: true, At: func(c *Agent) any { return &c.HTTP },
		Usage: httpUsage, Check: func(c *Agent) error { return checkAddress(c.HTTP) },
	},
	{
		Path: "logFormat", Flag: "log-format", Restart: true, At: func(c *Agent) any { return &c.LogFormat },
		Usage: logFormatUsage, Values: logFormats,
		Check: func(c *Agent) error { return setDefault(&c.LogFormat, v1alpha1.DefaultLogFormat) },
	},
}
