// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Shim is a validated ShimConfiguration.
type Shim struct {
	v1alpha1.ShimConfiguration

	Lookup time.Duration
	Drain  time.Duration
	Node   Node
	Engine *policy.Engine
}

// ShimKind describes the file of the command shim.
func ShimKind() *Kind[Shim] {
	return &Kind[Shim]{
		Name: v1alpha1.KindShim,
		parse: func(data []byte) (Shim, error) {
			c, err := v1alpha1.ParseShim(data)
			return Shim{ShimConfiguration: c}, err
		},
		resolve: func(c *Shim, file string) { resolveNodePaths(&c.ShimConfiguration.Node, file) },
		finish:  finishShim,
		Fields:  slices.Concat(shimFields, shimNodeFields()),
	}
}

// finishShim sets the node and its engine.
func finishShim(c *Shim, s *Source[Shim]) (err error) {
	if c.Kubeconfig != "" {
		s.files.track(c.Kubeconfig) // the client reads it
	}
	c.Node, c.Engine, err = finishNode(c.ShimConfiguration.Node, c.Autopath, c.Mode(), s)
	return err
}

// finishNode returns the node that n describes, and its engine. Node facts have no defaults: a
// default that differs from the kubelet's value would break pods.
func finishNode[C any](n v1alpha1.NodeConfiguration, autopath v1alpha1.AutopathConfiguration,
	mode cri.Mode, s *Source[C]) (Node, *policy.Engine, error) {
	if n.KubeletConfig == "" && n.KubeletConfigDir == "" && (n.ClusterDNS == nil || n.ClusterDomain == nil || n.ResolvConf == nil) {
		return Node{}, nil,
			s.incomplete(errors.New("node facts missing: set --kubelet-config, or --cluster-dns, " +
				"--cluster-domain and --resolv-conf, each of which may be empty"))
	}
	if n.NodeName == "" {
		return Node{}, nil, s.missing("node.nodeName", "")
	}
	node, err := newNode(n, autopath, nodeFacts{}, &s.files, s.origin)
	if err != nil {
		return Node{}, nil, err
	}
	if mode == cri.Force && len(node.ClusterDNS) == 0 {
		err := fmt.Errorf("%s without a cluster DNS would give pods the host's DNS: set "+
			"clusterDNS in the kubelet's configuration, or as %s", mode, s.flagName("node.clusterDNS"))
		return Node{}, nil, &kube.InputError{Location: s.origin("mode"), Err: err}
	}
	engine, err := node.Engine()
	return node, engine, err
}

// WithFacts returns the configuration with the node facts that were read from the kubelet's
// file, and without that file.
func (c *Shim) WithFacts() v1alpha1.ShimConfiguration {
	out := c.ShimConfiguration
	servers := make([]string, len(c.Node.ClusterDNS))
	for i, a := range c.Node.ClusterDNS {
		servers[i] = a.String()
	}
	out.Node.KubeletConfig, out.Node.KubeletConfigDir = "", ""
	out.Node.ClusterDNS, out.Node.ClusterDomain, out.Node.ResolvConf = &servers, &c.Node.ClusterDomain, &c.Node.ResolvConf
	return out
}

// The values of onUnknownPod.
const (
	onUnknownPass = "Passthrough"
	onUnknownFail = "Fail"
)

// FailUnknown reports whether requests for pods that cannot be looked up fail.
func (c *Shim) FailUnknown() bool {
	return c.OnUnknownPod == onUnknownFail || c.OnUnknownPod == "" && c.Mode() == cri.Force && c.Kubeconfig != ""
}

// Mode returns the mode of the shim.
func (c *Shim) Mode() cri.Mode { return cri.Mode(c.ShimConfiguration.Mode) }

// maxDrain is the longest drainTimeout. Calls that the kubelet makes during the drain wait in the socket
// of the service manager. The kubelet gives a connection 5 s (minConnectionTimeout of k8s.io/cri-client).
// Measured with its settings: a call succeeds after 4 s in the queue, and fails after 5 s.
const maxDrain = 4500 * time.Millisecond

// The bounds of lookupTimeout. With a shorter one most pods would not be found whenever the watch
// lags. A shim's kubelet waits 4 minutes for a sandbox, twice its runtimeRequestTimeout, and 30 s
// leave almost all of that to the container runtime.
const (
	minLookup = 100 * time.Millisecond
	maxLookup = 30 * time.Second
)

// lookupTimeoutField returns the row of lookupTimeout. at returns it, and its value.
func lookupTimeoutField[C any](defaultText string, at func(*C) (*string, *time.Duration)) Field[C] {
	return Field[C]{
		Path: "lookupTimeout", At: func(c *C) any { text, _ := at(c); return text },
		Check: func(c *C) (err error) {
			text, timeout := at(c)
			*timeout, err = parseDuration(text, defaultText)
			if err == nil && (*timeout < minLookup || *timeout > maxLookup) {
				err = fmt.Errorf("%q: want %v to %v", *text, minLookup, maxLookup)
			}
			return err
		},
	}
}

// modes are the values of mode.
var modes = []string{string(cri.Generate), string(cri.Force), string(cri.Observe)}

// Usage of flags that shim and agent have.
const (
	kubeconfigUsage = "kubeconfig `FILE` of the API server, to look pods up; empty: none"
	manifestsUsage  = "`DIR` of the kubelet's static pod manifests; empty: none"
)

// shimFields are the fields of the server, without those of the node.
var shimFields = []Field[Shim]{
	{
		Path: "listen", Flag: "listen", Restart: true, At: func(c *Shim) any { return &c.Listen },
		Usage: "`SOCKET` for the kubelet",
		Check: func(c *Shim) error { return parseSocket(&c.Listen, v1alpha1.DefaultShimListen) },
	},
	{
		Path: "runtimeEndpoint", Flag: "runtime-endpoint", Restart: true, At: func(c *Shim) any { return &c.RuntimeEndpoint },
		Usage: "`SOCKET` of the container runtime",
		Check: func(c *Shim) error { return parseSocket(&c.RuntimeEndpoint, v1alpha1.DefaultRuntimeEndpoint) },
	},
	{
		Path: "mode", At: func(c *Shim) any { return &c.ShimConfiguration.Mode },
		Values: modes,
		Check:  func(c *Shim) error { return setDefault(&c.ShimConfiguration.Mode, string(cri.Generate)) },
	},
	{
		Path: "onUnknownPod", At: func(c *Shim) any { return &c.OnUnknownPod },
		Values: []string{onUnknownPass, onUnknownFail},
		Check: func(c *Shim) error {
			switch {
			case c.OnUnknownPod != onUnknownFail:
				return nil
			case c.Mode() == cri.Observe:
				return fmt.Errorf("%q: mode Observe changes nothing: want %q", onUnknownFail, onUnknownPass)
			case c.Kubeconfig == "":
				return fmt.Errorf("%q: without a kubeconfig no pod of the API server would start: set kubeconfig", onUnknownFail)
			}
			return nil
		},
	},
	lookupTimeoutField(v1alpha1.DefaultShimLookupTimeout, func(c *Shim) (*string, *time.Duration) {
		return &c.LookupTimeout, &c.Lookup
	}),
	{
		Path: "kubeconfig", Flag: "kubeconfig", At: func(c *Shim) any { return &c.Kubeconfig },
		Usage: kubeconfigUsage,
	},
	{
		Path: "manifests", Flag: "manifests", At: func(c *Shim) any { return &c.Manifests },
		Usage: manifestsUsage,
	},
	httpField(func(c *Shim) *string { return &c.HTTP }),
	{
		Path: "drainTimeout", Restart: true, At: func(c *Shim) any { return &c.DrainTimeout },
		Check: func(c *Shim) (err error) {
			c.Drain, err = parsePositiveDuration(&c.DrainTimeout, v1alpha1.DefaultShimDrainTimeout)
			if err == nil && c.Drain > maxDrain {
				err = fmt.Errorf("%q is longer than %v: the kubelet gives up a connection after 5s, and its next calls "+
					"wait until the shim has stopped", c.DrainTimeout, maxDrain)
			}
			return err
		},
	},
	{
		Path: "agent", Restart: true, At: func(c *Shim) any { return &c.Agent },
		Check: func(c *Shim) error { return parseSocket(&c.Agent, v1alpha1.DefaultAgentListen) },
	},
}

// shimNodeFields are the fields of the node. Render, validate and lookup have them, too.
func shimNodeFields() []Field[Shim] {
	return append(nodeFields(func(c *Shim) *v1alpha1.NodeConfiguration { return &c.ShimConfiguration.Node }),
		autopathFields(func(c *Shim) *v1alpha1.AutopathConfiguration { return &c.Autopath })...)
}

// NodeFlags are the node facts of the commands render, validate and lookup. A later source
// overrides an earlier one: the defaults, the kubelet's file, the ShimConfiguration or
// AgentConfiguration of --config, the flags.
type NodeFlags struct{ source *Source[Shim] }

// Register adds the flags.
func (f *NodeFlags) Register(flags *pflag.FlagSet) {
	facts := clusterFacts()
	facts.resolvConf, facts.hostAssumed = v1alpha1.DefaultResolvConf, true
	f.register(flags, facts)
}

// RegisterWithoutHostDefault is Register for commands whose result must not depend on the machine
// that they run on: --resolv-conf has no default.
func (f *NodeFlags) RegisterWithoutHostDefault(flags *pflag.FlagSet) {
	f.register(flags, clusterFacts())
	flags.Lookup("resolv-conf").Usage = withoutHostUsage
}

// withoutHostUsage is the help text of --resolv-conf in commands that have no default for it.
const withoutHostUsage = "`PATH` of a node's resolv.conf; unset: rules that depend on it are " +
	"skipped; empty: the node has none, as with the kubelet"

func (f *NodeFlags) register(flags *pflag.FlagSet, facts nodeFacts) {
	kind := explainKind(facts)
	defaults := kind.Defaults()
	facts.setIn(&defaults.ShimConfiguration.Node)
	f.source = kind.fromFlags(flags, defaults)
	flags.Lookup("config").Usage = "`FILE` with the ShimConfiguration or AgentConfiguration of the node"
	flags.Lookup("node-name").Usage = "`NAME` of the node; Pod manifests are then static pods of the node, and get -NAME as a suffix"
}

// setIn sets the facts in c, so that help shows them as the defaults of flags.
func (f *nodeFacts) setIn(c *v1alpha1.NodeConfiguration) {
	c.ClusterDNS, c.ClusterDomain, c.ResolvConf = &f.dns, &f.domain, &f.resolvConf
}

// SocketKind describes a ShimConfiguration for a command that connects to the shim: only the
// shim's socket has a flag.
func SocketKind() *Kind[Shim] {
	k := ShimKind()
	k.Fields = slices.Clone(shimFields)
	for i := range k.Fields {
		if k.Fields[i].Path != "listen" {
			k.Fields[i].Flag = ""
		}
	}
	return k
}

// explainKind describes a ShimConfiguration for the commands render, validate and lookup: only
// fields of the node have flags, and facts has the defaults.
func explainKind(facts nodeFacts) *Kind[Shim] {
	fields := slices.Clone(shimFields)
	for i := range fields {
		fields[i].Flag = ""
	}
	k := ShimKind()
	k.parse = parseNodeFile
	k.Fields = append(fields, shimNodeFields()...)
	k.finish = func(c *Shim, s *Source[Shim]) error {
		var err error
		c.Node, err = newNode(c.ShimConfiguration.Node, c.Autopath, facts, &s.files, s.origin)
		return err
	}
	return k
}

// parseNodeFile parses a ShimConfiguration, or the node of an AgentConfiguration.
func parseNodeFile(data []byte) (Shim, error) {
	if t, err := v1alpha1.ReadTypeMeta(data); err != nil || t.Kind != v1alpha1.KindAgent {
		c, err := v1alpha1.ParseShim(data)
		return Shim{ShimConfiguration: c}, err
	}
	a, err := v1alpha1.ParseAgent(data)
	return Shim{ShimConfiguration: v1alpha1.ShimConfiguration{Node: a.Node, Autopath: a.Autopath}}, err
}

// Load returns the node.
func (f *NodeFlags) Load() (Node, error) {
	c, err := f.source.Load()
	return c.Node, err
}

// LoadFor returns the node, with clusterDNS and clusterDomain of a cluster that has been read. As
// the defaults that they replace, they give way to the flags and to files.
func (f *NodeFlags) LoadFor(clusterDNS []string, clusterDomain string) (Node, error) {
	c, err := f.source.Load()
	own := c.ShimConfiguration.Node
	if err != nil || own.KubeletConfig != "" || own.KubeletConfigDir != "" {
		return c.Node, err
	}
	if own.ClusterDNS == nil {
		if c.Node.ClusterDNS = parseAddrs(clusterDNS); len(c.Node.ClusterDNS) == 0 {
			return c.Node, errors.New("no DNS Service found in the cluster: set --cluster-dns")
		}
	}
	if own.ClusterDomain == nil && clusterDomain != "" {
		c.Node.ClusterDomain = clusterDomain
	}
	return c.Node, nil
}

// LoadRules returns the node and the rules of admission for it. Without --resolv-conf its
// resolv.conf is unknown: that of this machine would make the rules depend on where the command
// runs.
func (f *NodeFlags) LoadRules() (Node, *admission.Rules, error) {
	n, err := f.Load()
	if err != nil {
		return n, nil, err
	}
	if _, err := n.Engine(); err != nil { // the error has the name of the flag
		return n, nil, err
	}
	if !f.source.flags.Changed("resolv-conf") {
		rules, err := admission.New(n.Node, nil)
		return n, rules, err
	}
	host, _ := n.Host()
	rules, err := admission.New(n.Node, &host)
	return n, rules, err
}

// NodeOfFields returns the node that the fields of a ShimConfiguration or an AgentConfiguration
// describe, without the files that they name. Facts that are in such a file are those of a cluster
// with default settings, and the node has no resolv.conf.
func (f File) NodeOfFields() (Node, error) {
	k := explainKind(clusterFacts())
	k.finish = func(c *Shim, s *Source[Shim]) (err error) {
		own := c.ShimConfiguration.Node
		own.KubeletConfig, own.KubeletConfigDir, own.ResolvConf = "", "", nil
		c.Node, err = newNode(own, c.Autopath, clusterFacts(), &s.files, s.origin)
		return err
	}
	c, err := k.FromText(f).Load()
	return c.Node, err
}

// Node returns the node that a file describes. Its kind is ShimConfiguration,
// AgentConfiguration or KubeletConfiguration.
func (f File) Node(kind string) (Node, error) {
	facts := nodeFacts{resolvConf: kube.DefaultResolvConf, domainOrigin: inField("clusterDomain")}
	switch kind {
	case v1alpha1.KindShim, v1alpha1.KindAgent:
		c, err := explainKind(facts).FromText(f).Load()
		return c.Node, err
	case kube.KubeletKind:
		own := f.files()
		return newNode(v1alpha1.NodeConfiguration{KubeletConfig: f.Path}, v1alpha1.AutopathConfiguration{}, facts, &own, inField)
	}
	is := "missing"
	if kind != "" {
		is = fmt.Sprintf("is %q", kind)
	}
	err := fmt.Errorf("%s, want %s, %s or ConfigMap", is, strings.Join(v1alpha1.Kinds(), ", "), kube.KubeletKind)
	return Node{}, &kube.InputError{Location: f.Places().At("kind"), Err: err}
}
