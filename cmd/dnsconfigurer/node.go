// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// nodeFlags are the facts about a node as a command line gives them. Each source
// wins over the ones before it: the defaults, the kubelet's file, our
// configuration file, the flags.
type nodeFlags struct {
	config        string
	kubeletConfig string
	clusterDNS    []string
	clusterDomain string
	resolvConf    string
	nodeIPs       []string
	nodeName      string

	required bool // there are no defaults

	files files // that were read
}

func (f *nodeFlags) register(flags *pflag.FlagSet) {
	f.registerFacts(flags, facts{dns: []string{"10.96.0.10"}, domain: "cluster.local", resolvConf: kube.DefaultResolvConf})
	f.registerName(flags)
}

// registerWithoutHost is for what must not depend on the machine that it runs on.
func (f *nodeFlags) registerWithoutHost(flags *pflag.FlagSet) {
	f.registerFacts(flags, facts{dns: []string{"10.96.0.10"}, domain: "cluster.local"})
	flags.Lookup("resolv-conf").Usage = "`PATH` of a node's resolv.conf, to count what its pods get from it; without the flag it is unknown, empty: none, as with the kubelet"
}

// registerWithoutDefaults is for servers, which do not guess: load then fails unless
// all facts are given.
func (f *nodeFlags) registerWithoutDefaults(flags *pflag.FlagSet) {
	f.registerFacts(flags, facts{})
	f.registerName(flags)
	f.required = true
}

// registerName is for commands to which it matters whose static pods they see.
func (f *nodeFlags) registerName(flags *pflag.FlagSet) {
	flags.StringVar(&f.nodeName, "node-name", "", "`NAME` of the node; Pod manifests then count as its static pods and get its name in theirs")
}

func (f *nodeFlags) registerFacts(flags *pflag.FlagSet, defaults facts) {
	flags.StringVar(&f.config, "config", "", "`FILE` with a ShimConfiguration of the node")
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "`FILE` with the node's KubeletConfiguration: clusterDNS, clusterDomain, resolvConf")
	flags.StringSliceVar(&f.clusterDNS, "cluster-dns", defaults.dns, "`IP,..` of the cluster's DNS; empty: none")
	flags.StringVar(&f.clusterDomain, "cluster-domain", defaults.domain, "`DOMAIN` of the cluster; empty: none")
	flags.StringVar(&f.resolvConf, "resolv-conf", defaults.resolvConf, "`PATH` of the host's resolv.conf for pods; empty: none, as with the kubelet")
	flags.StringSliceVar(&f.nodeIPs, "node-ip", nil, "`IP,..` of the node; they matter when --resolv-conf is empty")
}

// node is a node that pods are decided for.
type node struct {
	policy.Node
	name     string
	uplink   string            // where systemd-resolved lists its servers; "": hostresolv's default
	follow   hostresolv.Follow // what to do with its stub
	findings []policy.Finding  // about the facts themselves
	origins  map[string]string // by field of policy.Node: the flag, or the file and its field
}

// engine returns an Engine for n. Its errors name what was given.
func (n node) engine() (*policy.Engine, error) {
	engine, err := policy.New(n.Node)
	if e, ok := errors.AsType[*policy.NodeError](err); ok && n.origins[e.Field] != "" {
		err = fmt.Errorf("%s: %s", n.origins[e.Field], e.Problem)
	}
	return engine, err
}

// hostConfig is how n's resolv.conf is read.
func (n node) hostConfig() hostresolv.Config {
	return hostresolv.Config{Path: n.ResolvConf, Follow: n.follow, UplinkPath: n.uplink}
}

// host reads the host's resolv.conf. A file that cannot be opened is one with that
// error: not every pod needs it. The findings say why it is not the file that was
// meant.
func (n node) host() (resolvconf.File, []policy.Finding) {
	switch {
	case n.ResolvConf == "":
		return resolvconf.File{}, nil
	case n.follow != hostresolv.Never:
		w, err := hostresolv.New(n.hostConfig())
		if err != nil {
			return resolvconf.File{Err: err}, nil
		}
		s, _ := w.Current()
		return s.File, uplinkFindings(s)
	}
	f, err := os.Open(n.ResolvConf) // also a pipe, as of a shell's <(...)
	if err != nil {
		return resolvconf.File{Err: err}, nil
	}
	defer f.Close()
	return resolvconf.Read(f), nil
}

// uplinkFindings says why pods get the stub of systemd-resolved although its uplink
// file is to be followed.
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

// load gathers the facts; flags tells which of f were given.
func (f *nodeFlags) load(flags *pflag.FlagSet) (node, error) {
	c, err := f.files.readShim(f.config)
	if err != nil {
		return node{}, err
	}
	return f.node(flags, c)
}

// node gathers the facts from c, the kubelet's file and the flags.
func (f *nodeFlags) node(flags *pflag.FlagSet, c v1alpha1.ShimConfiguration) (node, error) {
	if f.kubeletConfig != "" {
		c.Node.KubeletConfig = f.kubeletConfig
	}
	if err := errors.Join(addressFlag("--cluster-dns", f.clusterDNS), addressFlag("--node-ip", f.nodeIPs)); err != nil {
		return node{}, usageError{err}
	}
	facts := facts{dns: f.clusterDNS, dnsFrom: "--cluster-dns", domain: f.clusterDomain, domainFrom: "--cluster-domain", resolvConf: f.resolvConf}
	if c.Node.KubeletConfig != "" {
		if err := facts.readKubelet(&f.files, c.Node.KubeletConfig); err != nil {
			return node{}, err
		}
	}
	facts.configure(c.Node, f.config)
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
		return node{}, errors.New("what the kubelet knows is missing: give --kubelet-config, or --cluster-dns, --cluster-domain and --resolv-conf, each of which may be empty")
	}
	return facts.node(c, f.config)
}

// addressFlag checks a flag that lists addresses.
func addressFlag(name string, texts []string) error {
	var problems []error
	for _, s := range texts {
		if _, ok := parseAddr(s); !ok {
			problems = append(problems, fmt.Errorf("%s: %q is not an IP address", name, s))
		}
	}
	return errors.Join(problems...)
}
