// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// NodeFlags are the facts about a node on a command line. A later source overrides an
// earlier one: the defaults, the kubelet's file, the ShimConfiguration, the flags.
type NodeFlags struct {
	Config        string // path of the ShimConfiguration; "": there is none
	kubeletConfig string
	clusterDNS    []string
	clusterDomain string
	resolvConf    string
	nodeIPs       []string
	nodeName      string

	required bool // there are no defaults

	Files Files // as read by Load
}

// A FlagError is an error in the command line.
type FlagError struct{ error }

// Unwrap returns the error.
func (e FlagError) Unwrap() error { return e.error }

// Register adds the flags to a command that explains pods. The facts default to those of a
// usual cluster.
func (f *NodeFlags) Register(flags *pflag.FlagSet) {
	f.registerFacts(flags, nodeFacts{dns: []string{"10.96.0.10"}, domain: "cluster.local", resolvConf: kube.DefaultResolvConf})
	f.RegisterName(flags)
}

// RegisterWithoutHost is Register for commands whose result must not depend on the machine
// that they run on: resolv-conf has no default.
func (f *NodeFlags) RegisterWithoutHost(flags *pflag.FlagSet) {
	f.registerFacts(flags, nodeFacts{dns: []string{"10.96.0.10"}, domain: "cluster.local"})
	flags.Lookup("resolv-conf").Usage = "`PATH` of a node's resolv.conf, to count what its pods get from it; without the flag it is unknown, empty: none, as with the kubelet"
}

// RegisterWithoutDefaults is Register for servers of a node, where a default that differs
// from the kubelet's value breaks pods. Load fails if a fact is not set.
func (f *NodeFlags) RegisterWithoutDefaults(flags *pflag.FlagSet) {
	f.registerFacts(flags, nodeFacts{})
	f.RegisterName(flags)
	f.required = true
}

// RegisterName adds --node-name.
func (f *NodeFlags) RegisterName(flags *pflag.FlagSet) {
	flags.StringVar(&f.nodeName, "node-name", "", "`NAME` of the node; Pod manifests then count as its static pods and get its name in theirs")
}

func (f *NodeFlags) registerFacts(flags *pflag.FlagSet, defaults nodeFacts) {
	flags.StringVar(&f.Config, "config", "", "`FILE` with a ShimConfiguration of the node")
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "`FILE` with the node's KubeletConfiguration: clusterDNS, clusterDomain, resolvConf")
	flags.StringSliceVar(&f.clusterDNS, "cluster-dns", defaults.dns, "`IP,..` of the cluster's DNS; empty: none")
	flags.StringVar(&f.clusterDomain, "cluster-domain", defaults.domain, "`DOMAIN` of the cluster; empty: none")
	flags.StringVar(&f.resolvConf, "resolv-conf", defaults.resolvConf, "`PATH` of the host's resolv.conf for pods; empty: none, as with the kubelet")
	flags.StringSliceVar(&f.nodeIPs, "node-ip", nil, "`IP,..` of the node; they matter when --resolv-conf is empty")
}

// Node is a node whose pods get their DNS configuration from a policy.Engine.
type Node struct {
	policy.Node
	Name     string
	Findings []policy.Finding // about the facts themselves

	uplink     string                // where systemd-resolved lists its servers; "": the default of hostresolv
	uplinkMode hostresolv.UplinkMode // whether pods get those instead of its stub
	origins    map[string]string     // by field of policy.Node: the flag, or the file and its field
}

// Engine returns an engine for n. Its errors name the flag or the field of the file.
func (n Node) Engine() (*policy.Engine, error) {
	engine, err := policy.New(n.Node)
	if e, ok := errors.AsType[*policy.NodeError](err); ok && n.origins[e.Field] != "" {
		err = fmt.Errorf("%s: %s", n.origins[e.Field], e.Problem)
	}
	return engine, err
}

// HostConfig returns how the node's resolv.conf is read.
func (n Node) HostConfig() hostresolv.Config {
	return hostresolv.Config{Path: n.ResolvConf, Uplink: n.uplinkMode, UplinkPath: n.uplink}
}

// Host reads the node's resolv.conf. If it cannot be opened, the error is in the returned
// file: not every pod needs it. The findings say why the uplink file is not used although
// it is configured.
func (n Node) Host() (resolvconf.File, []policy.Finding) {
	switch {
	case n.ResolvConf == "":
		return resolvconf.File{}, nil
	case n.uplinkMode != hostresolv.UplinkNever:
		w, err := hostresolv.New(n.HostConfig())
		if err != nil {
			return resolvconf.File{Err: err}, nil
		}
		s, _ := w.Current()
		return s.File, uplinkFindings(s)
	}
	f, err := os.Open(n.ResolvConf) // may be a pipe, such as <(...) of a shell
	if err != nil {
		return resolvconf.File{Err: err}, nil
	}
	defer f.Close()
	return resolvconf.Read(f), nil
}

// uplinkFindings reports a stub of systemd-resolved whose uplink file cannot be used.
func uplinkFindings(s hostresolv.Snapshot) []policy.Finding {
	if !s.Stub || s.Uplink || s.Problem.Err == nil {
		return nil
	}
	return []policy.Finding{{
		Code: policy.CodeUplinkUnusable, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("%s is the stub of systemd-resolved, and pods get it as it is: %v", s.Path, s.Problem.Err),
		Field:   policy.FieldResolvConf, Hint: "start systemd-resolved, or correct node.uplinkResolvConf",
	}}
}

// Load reads the files and returns the node. The flags are those that f is registered with.
func (f *NodeFlags) Load(flags *pflag.FlagSet) (Node, error) {
	c, err := ReadShim(&f.Files, f.Config)
	if err != nil {
		return Node{}, err
	}
	return f.Merge(flags, c)
}

// Merge returns the node by c, the kubelet's file and the flags.
func (f *NodeFlags) Merge(flags *pflag.FlagSet, c v1alpha1.ShimConfiguration) (Node, error) {
	if f.kubeletConfig != "" {
		c.Node.KubeletConfig = f.kubeletConfig
	}
	if err := errors.Join(addressFlag("--cluster-dns", f.clusterDNS), addressFlag("--node-ip", f.nodeIPs)); err != nil {
		return Node{}, FlagError{err}
	}
	facts := nodeFacts{dns: f.clusterDNS, dnsFrom: "--cluster-dns", domain: f.clusterDomain, domainFrom: "--cluster-domain", resolvConf: f.resolvConf}
	if c.Node.KubeletConfig != "" {
		if err := facts.readKubelet(&f.Files, c.Node.KubeletConfig); err != nil {
			return Node{}, err
		}
	}
	facts.configure(c.Node, f.Config)
	if flags.Changed("cluster-dns") {
		facts.dns, facts.dnsFrom, facts.kubeletDNS = f.clusterDNS, "--cluster-dns", false
	}
	if flags.Changed("cluster-domain") {
		facts.domain, facts.domainFrom = f.clusterDomain, "--cluster-domain"
	}
	if flags.Changed("resolv-conf") {
		facts.resolvConf = f.resolvConf
	}
	if flags.Changed("node-ip") {
		c.Node.NodeIPs = f.nodeIPs
	}
	if flags.Changed("node-name") {
		c.Node.NodeName = f.nodeName
	}
	if given := c.Node.KubeletConfig != "" ||
		(c.Node.ClusterDNS != nil || flags.Changed("cluster-dns")) &&
			(c.Node.ClusterDomain != nil || flags.Changed("cluster-domain")) &&
			(c.Node.ResolvConf != nil || flags.Changed("resolv-conf")); f.required && !given {
		return Node{}, errors.New("node facts missing: set --kubelet-config, or --cluster-dns, --cluster-domain and --resolv-conf, each of which may be empty")
	}
	return facts.node(c, f.Config)
}

// addressFlag checks a flag that lists addresses.
func addressFlag(name string, texts []string) error {
	var problems []error
	for _, s := range texts {
		if _, ok := ParseAddr(s); !ok {
			problems = append(problems, fmt.Errorf("%s: %q is not an IP address", name, s))
		}
	}
	return errors.Join(problems...)
}

// ReadNode returns the node that the file at path describes. Its kind is ShimConfiguration
// or KubeletConfiguration.
func ReadNode(path, kind string) (Node, error) {
	f := NodeFlags{resolvConf: kube.DefaultResolvConf}
	switch kind {
	case v1alpha1.KindShim:
		f.Config = path
	case kube.KubeletKind:
		f.kubeletConfig = path
	default:
		return Node{}, fmt.Errorf("%s: kind: is %q, want %s or %s", path, kind, strings.Join(v1alpha1.Kinds(), ", "), kube.KubeletKind)
	}
	return f.Load(pflag.NewFlagSet("", pflag.ContinueOnError))
}
