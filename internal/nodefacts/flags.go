// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// defaultResolvConf is the resolv.conf of this machine, for commands that show what pods would get.
const defaultResolvConf = "/etc/resolv.conf"

// explained is the configuration of a node for the commands that explain pods.
type explained struct {
	v1alpha1.ShimConfiguration
	Node Node
}

// explainedKind describes a ShimConfiguration or AgentConfiguration for the commands render, validate and
// lookup: only fields of the node have flags, and known has the defaults.
func explainedKind(known Node) *config.Kind[explained] {
	return &config.Kind[explained]{
		Decode:  decodeNodeFile,
		FlagTag: "fact",
		Check:   func(c *explained, p *config.Problems) { CheckRules(&c.ShimConfiguration.Node, p) },
		Finish: func(c *explained, s *config.Source[explained]) (err error) {
			c.Node, err = newNode(c.ShimConfiguration.Node, c.Autopath, known, s)
			return err
		},
	}
}

// decodeNodeFile decodes a ShimConfiguration, or the node of an AgentConfiguration.
func decodeNodeFile(data []byte, c *explained) error {
	if t, err := v1alpha1.ReadTypeMeta(data); err != nil || t.Kind != v1alpha1.KindAgent {
		return v1alpha1.Decode(data, &c.ShimConfiguration)
	}
	a, err := v1alpha1.Parse[v1alpha1.AgentConfiguration](data)
	c.NodeServerConfiguration = a.NodeServerConfiguration
	return err
}

// Flags are the node facts of the commands render, validate and lookup. A later source
// overrides an earlier one: the defaults, the kubelet's file, the ShimConfiguration or
// AgentConfiguration of --config, the flags.
type Flags struct {
	source *config.Source[explained]
	set    *pflag.FlagSet
}

// Register adds the flags.
func (f *Flags) Register(set *pflag.FlagSet) {
	known := clusterNode()
	known.ResolvConf, known.HostAssumed = defaultResolvConf, true
	f.register(set, known)
}

// RegisterWithoutHostDefault is Register for commands whose result must not depend on the machine
// that they run on: --resolv-conf has no default.
func (f *Flags) RegisterWithoutHostDefault(set *pflag.FlagSet) {
	f.register(set, clusterNode())
	set.Lookup("resolv-conf").Usage = "path of a node's resolv.conf; unset: rules that depend on it are " +
		"skipped; empty: the node has none, as with the kubelet"
}

func (f *Flags) register(set *pflag.FlagSet, known Node) {
	f.set, f.source = set, explainedKind(known).FromFlags(set)
	set.Lookup("config").Usage = "`FILE` with the ShimConfiguration or AgentConfiguration of the node"
	set.Lookup("node-name").Usage = "name of the node; Pod manifests are then static pods of the node, and get -NAME as a suffix"
	for flag, value := range map[string]string{
		"cluster-dns": DefaultClusterDNS, "cluster-domain": DefaultClusterDomain, "resolv-conf": known.ResolvConf,
	} {
		set.Lookup(flag).DefValue = value
	}
}

// Load returns the node. It has the name of --node-name only: with that of a configuration file, each Pod manifest would
// be that of a static pod.
func (f *Flags) Load() (Node, error) {
	c, err := f.load()
	return c.Node, err
}

func (f *Flags) load() (explained, error) {
	c, err := f.source.Load()
	if !f.set.Changed("node-name") {
		c.Node.Name = ""
	}
	return c, err
}

// LoadFor returns the node, with clusterDNS and clusterDomain of a cluster that has been read. As
// the defaults that they replace, they give way to the flags and to files.
func (f *Flags) LoadFor(clusterDNS []string, clusterDomain string) (Node, error) {
	c, err := f.load()
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
func (f *Flags) LoadRules() (Node, *admission.Rules, error) {
	n, err := f.Load()
	if err != nil {
		return n, nil, err
	}
	if _, err := n.Engine(); err != nil { // the error has the name of the flag
		return n, nil, err
	}
	if !f.set.Changed("resolv-conf") {
		rules, err := admission.New(n.Node, nil)
		return n, rules, err
	}
	host, _ := n.Host()
	rules, err := admission.New(n.Node, &host)
	return n, rules, err
}

// FromFile returns the node that a file describes. Its kind is ShimConfiguration,
// AgentConfiguration or KubeletConfiguration.
func FromFile(f config.File, kind string) (Node, error) {
	known := Node{Node: policy.Node{ResolvConf: kube.DefaultResolvConf}, domainOrigin: document.Location{Field: "clusterDomain"}}
	k := explainedKind(known)
	switch kind {
	case v1alpha1.KindShim, v1alpha1.KindAgent:
		c, err := k.FromText(f).Load()
		return c.Node, err
	case kube.KubeletKind:
		s := k.FromFile("")
		s.Files = f.Files()
		return newNode(v1alpha1.NodeConfiguration{KubeletConfig: f.Path}, v1alpha1.AutopathConfiguration{}, known, s)
	}
	is := "missing"
	if kind != "" {
		is = fmt.Sprintf("is %q", kind)
	}
	err := fmt.Errorf("%s, want %s, %s or ConfigMap", is, strings.Join(v1alpha1.Kinds(), ", "), kube.KubeletKind)
	return Node{}, &document.InputError{Location: f.Places().At("kind"), Err: err}
}
