// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

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
		Fields: slices.Concat(agentFields, refreshFields,
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
		Usage: "`SOCKET` for the NRI relay and the shim",
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

// Taint is a taint of a node. A node has at most one of a key and an effect.
type Taint struct{ Key, Value, Effect string }

// String returns the form of the kubelet's --register-with-taints.
func (t Taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

// taintEffects are the effects that the API server accepts.
var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// parseTaint parses KEY=VALUE:EFFECT, as in the kubelet's --register-with-taints, or KEY:EFFECT.
func parseTaint(text string) (Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	switch {
	case !ok || key == "":
		return Taint{}, fmt.Errorf("%q: want KEY=VALUE:EFFECT or KEY:EFFECT, such as "+
			"dnsconfigurer.dev/agent-not-ready:NoSchedule", text)
	case !slices.Contains(taintEffects, effect):
		return Taint{}, fmt.Errorf("%q: the effect is %q, want %s", text, effect, strings.Join(taintEffects, ", "))
	}
	if problems := validation.IsQualifiedName(key); problems != nil {
		return Taint{}, fmt.Errorf("%q: the key is not valid: %s", text, problems[0])
	}
	if problems := validation.IsValidLabelValue(value); problems != nil {
		return Taint{}, fmt.Errorf("%q: the value is not valid: %s", text, problems[0])
	}
	return Taint{key, value, effect}, nil
}

// checkStartupTaint sets c.Taint. The taint is removed in the API server.
func checkStartupTaint(c *Agent) (err error) {
	if c.StartupTaint == "" {
		return nil
	}
	c.Taint, err = parseTaint(c.StartupTaint)
	if err == nil && c.Kubeconfig == "" && !c.InCluster {
		err = errors.New("without the API server no taint can be removed: set inCluster or kubeconfig")
	}
	return err
}

const (
	maxRefreshRate = 200         // in a second: the writer waits 5 ms after each write
	minVerify      = time.Second // reading the files of 110 pods takes some milliseconds
)

// refreshScopes are the values of RefreshConfiguration.Refresh.
var refreshScopes = []string{"Off", "DefaultPolicyOnly", "All"}

// refreshFields are the fields of a RefreshConfiguration.
var refreshFields = []Field[Agent]{
	{
		Path: "sandboxDirectories", At: func(c *Agent) any { return &c.SandboxDirectories },
		Check: func(c *Agent) error { return checkSandboxDirectories(&c.RefreshConfiguration) },
	},
	{
		Path: "refresh", At: func(c *Agent) any { return &c.Refresh }, Values: refreshScopes,
		Check: func(c *Agent) error { return setDefault(&c.Refresh, v1alpha1.DefaultRefresh) },
	},
	{Path: "refreshDryRun", At: func(c *Agent) any { return &c.RefreshDryRun }},
	{
		Path: "refreshRate", At: func(c *Agent) any { return &c.RefreshRate },
		Check: func(c *Agent) error { return checkRefreshRate(&c.RefreshConfiguration) },
	},
	{
		Path: "verifyInterval", At: func(c *Agent) any { return &c.VerifyInterval },
		Check: func(c *Agent) (err error) {
			c.Verify, err = parseVerifyInterval(&c.RefreshConfiguration)
			return err
		},
	},
	{
		Path: "statusSocket", Restart: true, At: func(c *Agent) any { return &c.StatusSocket },
		Check: func(c *Agent) error { return checkStatusSocket(&c.RefreshConfiguration, v1alpha1.DefaultStatusSocket) },
	},
}

// checkSandboxDirectories sets the directories of the known runtimes if there are none.
func checkSandboxDirectories(c *v1alpha1.RefreshConfiguration) error {
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
func checkRefreshRate(c *v1alpha1.RefreshConfiguration) error {
	c.RefreshRate = cmp.Or(c.RefreshRate, v1alpha1.DefaultRefreshRate)
	if c.RefreshRate < 1 || c.RefreshRate > maxRefreshRate {
		return fmt.Errorf("%d: want 1 to %d", c.RefreshRate, maxRefreshRate)
	}
	return nil
}

// parseVerifyInterval sets the default, and returns the interval.
func parseVerifyInterval(c *v1alpha1.RefreshConfiguration) (time.Duration, error) {
	verify, err := parseDuration(&c.VerifyInterval, v1alpha1.DefaultVerifyInterval)
	if err == nil && verify > 0 && verify < minVerify {
		err = fmt.Errorf("%q: want 0s, or at least %v", c.VerifyInterval, minVerify)
	}
	return verify, err
}

// checkStatusSocket sets the default if the field is absent, and makes it the path of the socket.
func checkStatusSocket(c *v1alpha1.RefreshConfiguration, socket string) error {
	if c.StatusSocket == nil {
		c.StatusSocket = &socket
	}
	if *c.StatusSocket == "" {
		return nil
	}
	endpoint := *c.StatusSocket
	if err := parseSocket(&endpoint, ""); err != nil {
		return err
	}
	c.StatusSocket = new(SocketPath(endpoint))
	return nil
}
