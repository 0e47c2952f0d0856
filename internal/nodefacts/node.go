// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// The facts of a cluster with default settings.
const (
	DefaultClusterDNS    = "10.96.0.10"
	DefaultClusterDomain = "cluster.local"
)

// Node is a node whose pods get their DNS configuration from a policy.Engine.
type Node struct {
	policy.Node
	Name     string
	Findings []policy.Finding // about the facts themselves

	// HostAssumed is set if nothing names the node's resolv.conf: it is that of this machine.
	HostAssumed bool

	uplink       string            // path of the uplink file of systemd-resolved
	useUplink    bool              // pods get the uplink file instead of the stub file
	domainOrigin document.Location // of ClusterDomain: the flag, or the file and its field
}

// Engine returns an engine for n. Its errors name the flag or the field of the file. An error about a
// flag is a usage.Error.
func (n Node) Engine() (*policy.Engine, error) {
	engine, err := policy.New(n.Node)
	if e, ok := errors.AsType[*policy.NodeError](err); ok && e.Field == "clusterDomain" && n.domainOrigin.Field != "" {
		err = &document.InputError{Location: n.domainOrigin, Err: errors.New(e.Problem)}
		if strings.HasPrefix(n.domainOrigin.Field, "--") {
			err = usage.Error{Err: err}
		}
	}
	return engine, err
}

// HostConfig returns how the node's resolv.conf is read.
func (n Node) HostConfig(log *slog.Logger) hostresolv.Config {
	return hostresolv.Config{Path: n.ResolvConf, Uplink: n.useUplink, UplinkPath: n.uplink, Logger: log}
}

// HostPaths returns the files that Host reads.
func (n Node) HostPaths() []string {
	switch {
	case n.ResolvConf == "":
		return nil
	case !n.useUplink:
		return []string{n.ResolvConf}
	}
	return []string{n.ResolvConf, n.uplink}
}

// Host reads the node's resolv.conf. If it cannot be opened, the error is in the returned
// file, because not every pod needs it. There is a finding if the uplink file is configured
// and cannot be used.
func (n Node) Host() (resolvconf.File, []policy.Finding) {
	switch {
	case n.ResolvConf == "":
		return resolvconf.File{}, nil
	case n.useUplink:
		s, _ := hostresolv.New(n.HostConfig(nil)).Current()
		return s.File, uplinkFindings(s)
	}
	f, err := os.Open(n.ResolvConf) // may be a pipe, such as <(...) of a shell
	if err != nil {
		return resolvconf.File{Err: err}, nil
	}
	defer f.Close()
	return resolvconf.Read(f), nil
}

// Check returns the findings about the facts and the node's resolv.conf.
func (n Node) Check() ([]policy.Finding, error) {
	engine, err := n.Engine()
	if err != nil {
		return nil, err
	}
	host, uplink := n.Host()
	found := slices.Concat(n.Findings, n.clusterDNSLength(), uplink, n.uplinkUsed(host), engine.CheckHost(host))
	for _, i := range host.Ignored {
		found = append(found, policy.Finding{
			Code: policy.CodeIgnoredHostLine, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s:%d: %q has no effect on pods: %s", cmp.Or(host.Path, n.ResolvConf), i.Line, i.Text, i.Reason),
			Field:   policy.FieldResolvConf, Hint: "nothing to do if that is intended",
		})
	}
	return found, nil
}

// clusterDNSLength reports a clusterDNS that is empty, or longer than a pod's list of nameservers.
func (n Node) clusterDNSLength() []policy.Finding {
	f := policy.Finding{Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode, Field: policy.FieldClusterDNS}
	switch count := len(n.ClusterDNS); {
	case count == 0:
		f.Code, f.Hint = policy.CodeNodeMissingDNS, "set the address of the cluster DNS Service"
		f.Message = "the node has no cluster DNS: pods with a cluster policy get the host's DNS"
	case count > policy.MaxNameservers:
		f.Code, f.Hint = policy.CodeServerLimit, "remove some: no pod with a cluster policy has the others"
		f.Message = fmt.Sprintf("%d addresses: pods get the first %d", count, policy.MaxNameservers)
	default:
		return nil
	}
	return []policy.Finding{f}
}

// uplinkUsed reports that pods get host, an uplink file, instead of the file of the kubelet.
func (n Node) uplinkUsed(host resolvconf.File) []policy.Finding {
	if !n.useUplink || host.Path == "" || host.Path == n.ResolvConf {
		return nil
	}
	return []policy.Finding{{
		Code: policy.CodeUplinkUsed, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("pods get %s instead of %s, the file of a stub resolver on the node", host.Path, n.ResolvConf),
		Field:   policy.FieldResolvConf, Hint: "nothing to do: node.hostResolver says so",
	}}
}

// uplinkFindings reports a stub whose uplink file cannot be used.
func uplinkFindings(s hostresolv.Snapshot) []policy.Finding {
	if !s.Stub || s.Uplink || s.Problem == nil {
		return nil
	}
	return []policy.Finding{{
		Code: policy.CodeUplinkUnusable, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("%s is the file of a stub resolver on the node, and pods get it unchanged: %v", s.Path, s.Problem),
		Field:   policy.FieldResolvConf, Hint: "start systemd-resolved or NetworkManager, or set node.hostResolver to the path of the file",
	}}
}

// clusterNode has the facts of a cluster with default settings.
func clusterNode() Node {
	return Node{
		Node:         policy.Node{ClusterDNS: parseAddrs([]string{DefaultClusterDNS}), ClusterDomain: DefaultClusterDomain},
		domainOrigin: document.Location{Field: "--cluster-domain"},
	}
}

// A source is where a configuration comes from: the files that it names are read through it, and it has the
// places of fields.
type source interface {
	Read(path string) ([]byte, error)
	List(dir, extension string) ([]string, error)
	Origin(path string) document.Location
}

// newNode returns the node that c describes. c must be valid. Facts that c does not set are
// read from its KubeletConfig and KubeletConfigDir. If they are not set, either, they are those
// in n.
func newNode(c v1alpha1.NodeConfiguration, autopath v1alpha1.AutopathConfiguration, n Node, s source) (_ Node, err error) {
	if c.KubeletConfig != "" || c.KubeletConfigDir != "" {
		if n, err = readKubelet(s, c); err != nil {
			return Node{}, err
		}
	}
	if c.ClusterDNS != nil {
		n.ClusterDNS = parseAddrs(*c.ClusterDNS)
	}
	if c.ClusterDomain != nil {
		n.ClusterDomain, n.domainOrigin = *c.ClusterDomain, s.Origin("node.clusterDomain")
	}
	if c.ResolvConf != nil {
		n.ResolvConf, n.HostAssumed = *c.ResolvConf, false
	}
	n.Name, n.IPs, n.uplink = c.NodeName, parseAddrs(c.NodeIPs), hostresolv.DefaultUplinkPath
	for _, p := range c.AllowedOverrides {
		n.AllowedOverrides = append(n.AllowedOverrides, policy.Policy(p))
	}
	n.Rules = newNodeRules(c.Rules)
	n.Autopath = policy.Autopath{ClusterDNSFallback: autopath.ClusterDNSFallback}
	n.Autopath.NodeCache, _ = config.ParseAddr(autopath.NodeCache)
	n.useUplink = c.HostResolver != "" && c.HostResolver != "never"
	if strings.Contains(c.HostResolver, "/") {
		n.uplink = c.HostResolver
	}
	return n, nil
}

// parseAddrs parses texts. Invalid addresses are skipped.
func parseAddrs(texts []string) (addrs []netip.Addr) {
	for _, text := range texts {
		if a, ok := config.ParseAddr(text); ok {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// CheckRules adds the problems of the node rules to p.
func CheckRules(c *v1alpha1.NodeConfiguration, p *config.Problems) {
	for _, problem := range policy.CheckNodeRules(newNodeRules(c.Rules)) {
		p.Add("node.rules"+problem.Field, errors.New(problem.Problem))
	}
}

// newNodeRules returns rules as the policy engine has them.
func newNodeRules(rules []v1alpha1.NodeRule) (list []policy.NodeRule) {
	for _, r := range rules {
		n := policy.NodeRule{
			Namespaces: r.Namespaces, PodLabels: r.PodLabels,
			Options: setList(r.Options), HostOptions: r.HostOptions, HostSearches: setList(r.HostSearches),
			DropUnreachable: r.DropUnreachable, DropDuplicates: r.DropDuplicates, PodFirst: r.PodFirst,
			SubdomainSearch: policy.Placement(r.SubdomainSearch), HostNetworkAsCluster: r.HostNetworkAsCluster,
			ServerFamilies: policy.FamilyChoice(r.ServerFamilies),
		}
		for _, p := range r.Policies {
			n.Policies = append(n.Policies, policy.Policy(p))
		}
		list = append(list, n)
	}
	return list
}

// setList returns nil for an absent list only.
func setList(list *[]string) []string {
	if list == nil {
		return nil
	}
	return append([]string{}, *list...)
}

// NewServerNode returns the node of a shim or an agent. Node facts have no defaults: a
// default that differs from the kubelet's value would break pods.
func NewServerNode[C any](c v1alpha1.NodeServerConfiguration, s *config.Source[C]) (Node, *policy.Engine, error) {
	n := c.Node
	if n.KubeletConfig == "" && n.KubeletConfigDir == "" && (n.ClusterDNS == nil || n.ClusterDomain == nil || n.ResolvConf == nil) {
		return Node{}, nil, s.Incomplete(errors.New("node facts missing: set node.kubeletConfig, or node.clusterDNS, " +
			"node.clusterDomain and node.resolvConf, each of which may be empty"))
	}
	if c.Kubeconfig != "" {
		s.Track(c.Kubeconfig) // the client reads it
	}
	if n.NodeName == "" {
		return Node{}, nil, s.Missing("node.nodeName", "")
	}
	node, err := newNode(n, c.Autopath, Node{}, s)
	if err != nil {
		return Node{}, nil, err
	}
	if c.Mode == "Force" && len(node.ClusterDNS) == 0 {
		err := fmt.Errorf("%s without a cluster DNS would give pods the host's DNS: set "+
			"clusterDNS in the kubelet's configuration, or as node.clusterDNS", c.Mode)
		return Node{}, nil, &document.InputError{Location: s.Origin("mode"), Err: err}
	}
	engine, err := node.Engine()
	return node, engine, err
}

// NewClusterNode returns a node of the cluster of a webhook. Facts that are not set are those of a cluster
// with default settings.
func NewClusterNode[C any](c v1alpha1.NodeConfiguration, s *config.Source[C]) (Node, error) {
	node, err := newNode(c, v1alpha1.AutopathConfiguration{}, clusterNode(), s)
	if err == nil {
		_, err = node.Engine() // names the field
	}
	return node, err
}

// FillFacts sets the facts of n in c, instead of the kubelet's file.
func (n Node) FillFacts(c *v1alpha1.NodeConfiguration) {
	servers := make([]string, len(n.ClusterDNS))
	for i, a := range n.ClusterDNS {
		servers[i] = a.String()
	}
	c.KubeletConfig, c.KubeletConfigDir = "", ""
	c.ClusterDNS, c.ClusterDomain, c.ResolvConf = &servers, &n.ClusterDomain, &n.ResolvConf
}
