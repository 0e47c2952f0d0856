// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"net/netip"
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
	Engine *policy.Engine // nil: InferNodeFacts is set, see WithFacts
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
			if c.InferNodeFacts {
				return c.finishInferred(s)
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

// finishInferred is finishNode for node facts that are inferred. The other fields must be valid with
// any facts.
func (c *Agent) finishInferred(s *Source[Agent]) (err error) {
	if c.AgentConfiguration.Node.NodeName == "" {
		return s.missing("node.nodeName", "")
	}
	if c.Node, err = newNode(c.AgentConfiguration.Node, c.Autopath, nodeFacts{}, &s.files, s.origin); err != nil {
		return err
	}
	_, err = c.WithFacts([]netip.Addr{netip.IPv6Loopback()}, v1alpha1.DefaultClusterDomain, c.Node.ResolvConf)
	return err
}

// WithFacts returns the configuration with inferred node facts.
func (c *Agent) WithFacts(clusterDNS []netip.Addr, clusterDomain, resolvConf string) (Agent, error) {
	with := *c
	with.Node.ClusterDNS, with.Node.ClusterDomain, with.Node.ResolvConf = clusterDNS, clusterDomain, resolvConf
	var err error
	with.Engine, err = with.Node.Engine()
	return with, err
}

// checkInferNodeFacts returns an error if InferNodeFacts is combined with other sources of the
// facts, or with a mode that does not compare them.
func checkInferNodeFacts(c *Agent) error {
	n := &c.AgentConfiguration.Node
	var others []string
	for _, o := range []struct {
		path string
		set  bool
	}{
		{"node.kubeletConfig", n.KubeletConfig != ""}, {"node.kubeletConfigDir", n.KubeletConfigDir != ""},
		{"node.clusterDNS", n.ClusterDNS != nil}, {"node.clusterDomain", n.ClusterDomain != nil},
	} {
		if o.set {
			others = append(others, o.path)
		}
	}
	switch {
	case !c.InferNodeFacts:
		return nil
	case others != nil:
		return conflictError{others}
	case c.Mode() == cri.Force:
		return errors.New("cannot be combined with mode Force, which writes files without comparing the facts")
	}
	return nil
}

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
		Path: "inferNodeFacts", At: func(c *Agent) any { return &c.InferNodeFacts },
		Check: checkInferNodeFacts,
	},
	{
		Path: "manifests", Flag: "manifests", At: func(c *Agent) any { return &c.Manifests },
		Usage: manifestsUsage,
	},
	httpField(func(c *Agent) *string { return &c.HTTP }),
	logFormatField(func(c *Agent) *string { return &c.LogFormat }),
}
