// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Node is a node whose pods get their DNS configuration from a policy.Engine.
type Node struct {
	policy.Node
	Name     string
	Findings []policy.Finding // about the facts themselves

	// HostAssumed is set if nothing names the node's resolv.conf: it is that of this machine.
	HostAssumed bool

	uplink     string                   // path of the uplink file of systemd-resolved; "": the default of hostresolv
	uplinkMode hostresolv.UplinkMode    // whether pods get the uplink file instead of the stub file
	origins    map[string]kube.Location // by field of policy.Node: the flag, or the file and its field
}

// Engine returns an engine for n. Its errors name the flag or the field of the file. An error about a
// flag is a usage.Error.
func (n Node) Engine() (*policy.Engine, error) {
	engine, err := policy.New(n.Node)
	if e, ok := errors.AsType[*policy.NodeError](err); ok && n.origins[e.Field].Field != "" {
		at := n.origins[e.Field]
		err = &kube.InputError{Location: at, Err: errors.New(e.Problem)}
		if strings.HasPrefix(at.Field, "--") {
			err = usage.Error{Err: err}
		}
	}
	return engine, err
}

// HostConfig returns how the node's resolv.conf is read.
func (n Node) HostConfig() hostresolv.Config {
	return hostresolv.Config{Path: n.ResolvConf, Uplink: n.uplinkMode, UplinkPath: n.uplink}
}

// Host reads the node's resolv.conf. If it cannot be opened, the error is in the returned
// file, because not every pod needs it. There is a finding if the uplink file is configured
// and cannot be used.
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
	if n.uplinkMode == hostresolv.UplinkNever || host.Path == "" || host.Path == n.ResolvConf {
		return nil
	}
	return []policy.Finding{{
		Code: policy.CodeUplinkUsed, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("pods get %s instead of %s, the file of a stub resolver on the node", host.Path, n.ResolvConf),
		Field:   policy.FieldResolvConf, Hint: "nothing to do: node.hostResolver is auto",
	}}
}

// uplinkFindings reports a stub whose uplink file cannot be used.
func uplinkFindings(s hostresolv.Snapshot) []policy.Finding {
	if !s.Stub || s.Uplink || s.Problem.Err == nil {
		return nil
	}
	return []policy.Finding{{
		Code: policy.CodeUplinkUnusable, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("%s is the file of a stub resolver on the node, and pods get it unchanged: %v", s.Path, s.Problem.Err),
		Field:   policy.FieldResolvConf, Hint: "start systemd-resolved or NetworkManager, or correct node.uplinkResolvConf",
	}}
}

// nodeFacts are the facts that a KubeletConfiguration can have, with their origins for
// messages.
type nodeFacts struct {
	dns                []string
	domain, resolvConf string

	dnsOrigin, domainOrigin kube.Location
	dnsFromKubelet          bool
	hostAssumed             bool // resolvConf is that of this machine, which may not be the node

	findings []policy.Finding
}

// clusterFacts are the facts of a cluster with default settings.
func clusterFacts() nodeFacts {
	return nodeFacts{
		dns: []string{v1alpha1.DefaultClusterDNS}, domain: v1alpha1.DefaultClusterDomain,
		domainOrigin: inField("--cluster-domain"),
	}
}

// newNode returns the node that c describes. c must be valid. Facts that c does not set are
// read from its KubeletConfig and KubeletConfigDir. If they are not set, either, they are those
// in facts.
func newNode(c v1alpha1.NodeConfiguration, autopath v1alpha1.AutopathConfiguration, facts nodeFacts,
	f *files, origin func(path string) kube.Location) (Node, error) {
	if c.KubeletConfig != "" || c.KubeletConfigDir != "" {
		var err error
		if facts, err = readKubelet(f, c.KubeletConfig, c.KubeletConfigDir); err != nil {
			return Node{}, err
		}
	}
	if c.ClusterDNS != nil {
		facts.dns, facts.dnsFromKubelet = *c.ClusterDNS, false
	}
	if c.ClusterDomain != nil {
		facts.domain, facts.domainOrigin = *c.ClusterDomain, origin("node.clusterDomain")
	}
	if c.ResolvConf != nil {
		facts.resolvConf, facts.hostAssumed = *c.ResolvConf, false
	}
	n := Node{
		Name: c.NodeName, HostAssumed: facts.hostAssumed, uplink: c.UplinkResolvConf, Findings: facts.findings,
		origins: map[string]kube.Location{"clusterDomain": facts.domainOrigin, "autopath.suffix": origin("autopath.suffix")},
	}
	n.ClusterDomain, n.ResolvConf = facts.domain, facts.resolvConf
	n.ClusterDNS = parseAddrs(facts.dns)
	if facts.dnsFromKubelet {
		n.Findings = append(n.Findings, facts.invalidDNS()...)
	}
	n.IPs = parseAddrs(c.NodeIPs)
	for _, p := range c.AllowedOverrides {
		n.AllowedOverrides = append(n.AllowedOverrides, policy.Policy(p))
	}
	n.Rules = newNodeRules(c.Rules)
	n.Autopath = policy.Autopath{Suffix: autopath.Suffix, ClusterDNSFallback: autopath.ClusterDNSFallback}
	n.Autopath.NodeCache, _ = ParseAddr(autopath.NodeCache)
	var err error
	n.uplinkMode, err = hostresolv.ParseUplinkMode(c.HostResolver)
	return n, err
}

// invalidDNS reports invalid addresses in the kubelet's clusterDNS. They are not errors,
// because the kubelet skips them.
func (f *nodeFacts) invalidDNS() (findings []policy.Finding) {
	for i, text := range f.dns {
		if _, ok := ParseAddr(text); ok {
			continue
		}
		findings = append(findings, policy.Finding{
			Code: policy.CodeInvalidClusterDNS, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s[%d]: %q is not an IP address: skipped by the kubelet", f.dnsOrigin.Name(), i, text),
			Field:   policy.FieldClusterDNS, Hint: "give an IPv4 or IPv6 address without port and zone",
		})
	}
	return findings
}

// parseAddrs parses texts. Invalid addresses are skipped.
func parseAddrs(texts []string) (addrs []netip.Addr) {
	for _, text := range texts {
		if a, ok := ParseAddr(text); ok {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// resolveNodePaths resolves the relative paths in c from the directory of file.
func resolveNodePaths(c *v1alpha1.NodeConfiguration, file string) {
	c.KubeletConfig = relativeTo(file, c.KubeletConfig)
	c.KubeletConfigDir = relativeTo(file, c.KubeletConfigDir)
	c.UplinkResolvConf = relativeTo(file, c.UplinkResolvConf)
	if c.ResolvConf != nil {
		*c.ResolvConf = relativeTo(file, *c.ResolvConf)
	}
}

// checkPolicies returns an error if one of the policies is not one of the API.
func checkPolicies(policies []string) error {
	var problems []error
	for i, p := range policies {
		switch policy.Policy(p) {
		case policy.Default, policy.ClusterFirst, policy.ClusterFirstWithHostNet, policy.None:
		default:
			problems = append(problems, itemError{i, fmt.Errorf("%q: want Default, ClusterFirst, ClusterFirstWithHostNet or None", p)})
		}
	}
	return errors.Join(problems...)
}

// nodeFields returns the fields below "node".
func nodeFields[C any](at func(*C) *v1alpha1.NodeConfiguration) []Field[C] {
	return []Field[C]{
		{
			Path: "node.kubeletConfig", Flag: "kubelet-config", At: func(c *C) any { return &at(c).KubeletConfig },
			Usage: "`FILE` with the node's KubeletConfiguration, for clusterDNS, " +
				"clusterDomain and resolvConf; empty: as in the file of --config",
			IgnoreEmptyFlag: true,
		},
		{
			Path: "node.kubeletConfigDir", Flag: "kubelet-config-dir", At: func(c *C) any { return &at(c).KubeletConfigDir },
			Usage: "`DIR` of the kubelet's --config-dir, whose files override " +
				"--kubelet-config; empty: as in the file of --config",
			IgnoreEmptyFlag: true,
		},
		{
			Path: "node.clusterDNS", Flag: "cluster-dns", At: func(c *C) any { return &at(c).ClusterDNS },
			Usage: "`IP,..` of the cluster DNS; empty: none",
			Check: func(c *C) error {
				if list := at(c).ClusterDNS; list != nil {
					return checkAddrs(*list)
				}
				return nil
			},
		},
		{
			Path: "node.clusterDomain", Flag: "cluster-domain", At: func(c *C) any { return &at(c).ClusterDomain },
			Usage: "`DOMAIN` of the cluster; empty: none",
		},
		{
			Path: "node.resolvConf", Flag: "resolv-conf", At: func(c *C) any { return &at(c).ResolvConf },
			Usage: "`PATH` of the resolv.conf that pods inherit; empty: none, as with the kubelet",
		},
		{
			Path: "node.hostResolver", At: func(c *C) any { return &at(c).HostResolver }, Values: []string{"never", "auto"},
			Check: func(c *C) error { return setDefault(&at(c).HostResolver, "never") },
		},
		{
			Path: "node.uplinkResolvConf", At: func(c *C) any { return &at(c).UplinkResolvConf },
			Check: func(c *C) error { return setDefault(&at(c).UplinkResolvConf, hostresolv.DefaultUplinkPath) },
		},
		{
			Path: "node.nodeIPs", Flag: "node-ip", At: func(c *C) any { return &at(c).NodeIPs },
			Usage: "`IP,..` of the node; used if --resolv-conf is empty",
			Check: func(c *C) error { return checkAddrs(at(c).NodeIPs) },
		},
		{
			Path: "node.nodeName", Flag: "node-name", At: func(c *C) any { return &at(c).NodeName },
			Usage: "`NAME` of the node, whose pods are looked up; static pods get -NAME as a suffix",
		},
		{
			Path: "node.allowedOverrides", At: func(c *C) any { return &at(c).AllowedOverrides },
			Check: func(c *C) error { return checkPolicies(at(c).AllowedOverrides) },
		},
		{
			Path: "node.rules", At: func(c *C) any { return &at(c).Rules },
			Check: func(c *C) error { return checkNodeRules(at(c).Rules) },
		},
	}
}

// autopathFields returns the fields below "autopath".
func autopathFields[C any](at func(*C) *v1alpha1.AutopathConfiguration) []Field[C] {
	return []Field[C]{
		{
			Path: "autopath.nodeCache", At: func(c *C) any { return &at(c).NodeCache },
			Check: func(c *C) error {
				if _, ok := ParseAddr(at(c).NodeCache); !ok && at(c).NodeCache != "" {
					return fmt.Errorf("%q is not an IP address", at(c).NodeCache)
				}
				return nil
			},
		},
		{
			Path: "autopath.suffix", At: func(c *C) any { return &at(c).Suffix },
			Check: func(c *C) error { return setDefault(&at(c).Suffix, v1alpha1.DefaultAutopathSuffix) },
		},
		{Path: "autopath.clusterDNSFallback", At: func(c *C) any { return &at(c).ClusterDNSFallback }},
	}
}
