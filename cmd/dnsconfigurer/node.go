// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
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
}

func (f *nodeFlags) register(flags *pflag.FlagSet) {
	f.registerFacts(flags, facts{dns: []string{"10.96.0.10"}, domain: "cluster.local", resolvConf: kube.DefaultResolvConf})
}

// registerWithoutDefaults is for servers, which do not guess: load then fails unless
// all facts are given.
func (f *nodeFlags) registerWithoutDefaults(flags *pflag.FlagSet) {
	f.registerFacts(flags, facts{})
	f.required = true
}

func (f *nodeFlags) registerFacts(flags *pflag.FlagSet, defaults facts) {
	flags.StringVar(&f.config, "config", "", "`FILE` with a ShimConfiguration of the node")
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "`FILE` with the node's KubeletConfiguration: clusterDNS, clusterDomain, resolvConf")
	flags.StringSliceVar(&f.clusterDNS, "cluster-dns", defaults.dns, "`IP,..` of the cluster's DNS; empty: none")
	flags.StringVar(&f.clusterDomain, "cluster-domain", defaults.domain, "`DOMAIN` of the cluster; empty: none")
	flags.StringVar(&f.resolvConf, "resolv-conf", defaults.resolvConf, "`PATH` of the host's resolv.conf for pods; empty: none, as with the kubelet")
	flags.StringSliceVar(&f.nodeIPs, "node-ip", nil, "`IP,..` of the node; they matter when --resolv-conf is empty")
	flags.StringVar(&f.nodeName, "node-name", "", "`NAME` of the node; Pod manifests then count as its static pods and get its name in theirs")
}

// node is a node that pods are decided for.
type node struct {
	policy.Node
	name     string
	findings []policy.Finding // about the facts themselves
}

// host reads the host's resolv.conf. A file that cannot be opened is one with that
// error: not every pod needs it.
func (n node) host() resolvconf.File {
	if n.ResolvConf == "" {
		return resolvconf.File{}
	}
	f, err := os.Open(n.ResolvConf)
	if err != nil {
		return resolvconf.File{Err: err}
	}
	defer f.Close()
	return resolvconf.Read(f)
}

// load gathers the facts; flags tells which of f were given.
func (f *nodeFlags) load(flags *pflag.FlagSet) (node, error) {
	c := v1alpha1.ShimConfiguration{}
	if f.config != "" {
		var err error
		if c, err = readConfig(f.config); err != nil {
			return node{}, err
		}
	}
	if f.kubeletConfig != "" {
		c.Node.KubeletConfig = f.kubeletConfig
	}
	facts := facts{dns: f.clusterDNS, dnsFrom: "--cluster-dns", domain: f.clusterDomain, resolvConf: f.resolvConf}
	if c.Node.KubeletConfig != "" {
		if err := facts.readKubelet(c.Node.KubeletConfig); err != nil {
			return node{}, err
		}
	}
	facts.configure(c.Node, f.config)
	if flags.Changed("cluster-dns") {
		facts.dns, facts.dnsFrom = f.clusterDNS, "--cluster-dns"
	}
	if flags.Changed("cluster-domain") {
		facts.domain = f.clusterDomain
	}
	if flags.Changed("resolv-conf") {
		facts.resolvConf = f.resolvConf
	}
	if flags.Changed("node-ip") {
		c.Node.NodeIPs = f.nodeIPs
		for _, s := range f.nodeIPs {
			if _, ok := parseAddr(s); !ok {
				return node{}, usageError{fmt.Errorf("--node-ip: %q is not an IP address", s)}
			}
		}
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
	return facts.node(c)
}

// facts are the three that a kubelet's file and ours may both give.
type facts struct {
	dns        []string
	dnsFrom    string // for messages
	domain     string
	resolvConf string
}

// readKubelet takes the facts of a KubeletConfiguration. As in the kubelet, a
// relative resolvConf counts from the directory of the file.
func (f *facts) readKubelet(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	k, err := kube.ParseKubeletConfiguration(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f.dns, f.dnsFrom, f.domain, f.resolvConf = k.ClusterDNS, path+": clusterDNS", k.ClusterDomain, kube.DefaultResolvConf
	if k.ResolvConf != nil {
		f.resolvConf = besides(path, *k.ResolvConf)
	}
	return nil
}

func (f *facts) configure(c v1alpha1.NodeConfiguration, path string) {
	if c.ClusterDNS != nil {
		f.dns, f.dnsFrom = *c.ClusterDNS, path+": node.clusterDNS"
	}
	if c.ClusterDomain != nil {
		f.domain = *c.ClusterDomain
	}
	if c.ResolvConf != nil {
		f.resolvConf = *c.ResolvConf
	}
}

// node parses the facts. Like the kubelet it goes on without a clusterDNS entry
// that is no address, and says so.
func (f *facts) node(c v1alpha1.ShimConfiguration) (node, error) {
	n := node{name: c.Node.NodeName}
	n.ClusterDomain, n.ResolvConf = f.domain, f.resolvConf
	for _, s := range f.dns {
		a, ok := parseAddr(s)
		if !ok {
			n.findings = append(n.findings, policy.Finding{
				Code: policy.CodeInvalidClusterDNS, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
				Message: fmt.Sprintf("%s: %q is not an IP address, the kubelet goes on without it", f.dnsFrom, s),
				Field:   policy.FieldClusterDNS, Hint: "give an IPv4 or IPv6 address without port and zone",
			})
			continue
		}
		n.ClusterDNS = append(n.ClusterDNS, a)
	}
	for _, s := range c.Node.NodeIPs {
		a, ok := parseAddr(s)
		if !ok {
			return n, fmt.Errorf("node.nodeIPs: %q is not an IP address", s)
		}
		n.IPs = append(n.IPs, a)
	}
	n.Autopath = policy.Autopath{Suffix: c.Autopath.Suffix, ClusterDNSFallback: c.Autopath.ClusterDNSFallback}
	if s := c.Autopath.NodeCache; s != "" {
		a, ok := parseAddr(s)
		if !ok {
			return n, fmt.Errorf("autopath.nodeCache: %q is not an IP address", s)
		}
		n.Autopath.NodeCache = a
	}
	return n, nil
}

// parseAddr parses an address as the kubelet does: leading zeros are allowed,
// zones are not, and IPv4 in IPv6 is IPv4.
func parseAddr(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}

// readConfig reads a ShimConfiguration. As in the kubelet's file, relative paths to
// other files about the node count from its own directory.
func readConfig(path string) (v1alpha1.ShimConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return v1alpha1.ShimConfiguration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := v1alpha1.ParseShim(data)
	if err != nil {
		return c, within(path, err)
	}
	c.Node.KubeletConfig = besides(path, c.Node.KubeletConfig)
	if c.Node.ResolvConf != nil {
		*c.Node.ResolvConf = besides(path, *c.Node.ResolvConf)
	}
	return c, nil
}

// besides resolves name from the directory of file; "" stays "".
func besides(file, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}
