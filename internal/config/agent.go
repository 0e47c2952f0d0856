// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
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
	Verify time.Duration // VerifyInterval
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
			nodeFields(func(c *Agent) *v1alpha1.NodeConfiguration { return &c.AgentConfiguration.Node }),
			autopathFields(func(c *Agent) *v1alpha1.AutopathConfiguration { return &c.Autopath })),
	}
}

// Mode returns the mode of the agent.
func (c *Agent) Mode() cri.Mode { return cri.Mode(c.AgentConfiguration.Mode) }

const (
	maxRefreshRate = 200         // in a second: the agent waits 5 ms after each write
	minVerify      = time.Second // reading the files of 110 pods takes some milliseconds
)

// refreshScopes are the values of AgentConfiguration.Refresh.
var refreshScopes = []string{"Off", "DefaultPolicyOnly", "All"}

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
		Path: "manifests", Flag: "manifests", At: func(c *Agent) any { return &c.Manifests },
		Usage: manifestsUsage,
	},
	{
		Path: "sandboxDirectories", At: func(c *Agent) any { return &c.SandboxDirectories },
		Check: (*Agent).checkSandboxDirectories,
	},
	{
		Path: "refresh", At: func(c *Agent) any { return &c.Refresh }, Values: refreshScopes,
		Check: func(c *Agent) error { return setDefault(&c.Refresh, v1alpha1.DefaultRefresh) },
	},
	{Path: "refreshDryRun", At: func(c *Agent) any { return &c.RefreshDryRun }},
	{
		Path: "refreshRate", At: func(c *Agent) any { return &c.RefreshRate },
		Check: (*Agent).checkRefreshRate,
	},
	{
		Path: "verifyInterval", At: func(c *Agent) any { return &c.VerifyInterval },
		Check: (*Agent).checkVerifyInterval,
	},
	{
		Path: "statusSocket", Restart: true, At: func(c *Agent) any { return &c.StatusSocket },
		Check: (*Agent).checkStatusSocket,
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

// checkSandboxDirectories sets the directories of the known runtimes if there are none.
func (c *Agent) checkSandboxDirectories() error {
	if len(c.SandboxDirectories) == 0 {
		c.SandboxDirectories = []string{v1alpha1.DefaultContainerdSandboxes, v1alpha1.DefaultCRIOSandboxes, v1alpha1.DefaultK3sSandboxes}
	}
	var problems []error
	for i, d := range c.SandboxDirectories {
		if !filepath.IsAbs(d) || filepath.Clean(d) == "/" {
			problems = append(problems, itemError{i, fmt.Errorf("%q is not an absolute path below /", d)})
		}
	}
	return errors.Join(problems...)
}

// checkRefreshRate sets the default, and checks the bounds.
func (c *Agent) checkRefreshRate() error {
	c.RefreshRate = cmp.Or(c.RefreshRate, v1alpha1.DefaultRefreshRate)
	if c.RefreshRate < 1 || c.RefreshRate > maxRefreshRate {
		return fmt.Errorf("%d: want 1 to %d", c.RefreshRate, maxRefreshRate)
	}
	return nil
}

// checkVerifyInterval sets Verify.
func (c *Agent) checkVerifyInterval() (err error) {
	c.Verify, err = parseDuration(&c.VerifyInterval, v1alpha1.DefaultVerifyInterval)
	if err == nil && c.Verify > 0 && c.Verify < minVerify {
		err = fmt.Errorf("%q: want 0s, or at least %v", c.VerifyInterval, minVerify)
	}
	return err
}

// checkStatusSocket sets the default if the field is absent, and makes it the path of the socket.
func (c *Agent) checkStatusSocket() error {
	if c.StatusSocket == nil {
		c.StatusSocket = new(v1alpha1.DefaultStatusSocket)
	}
	if *c.StatusSocket == "" {
		return nil
	}
	socket := *c.StatusSocket
	if err := parseSocket(&socket, ""); err != nil {
		return err
	}
	c.StatusSocket = new(SocketPath(socket))
	return nil
}
