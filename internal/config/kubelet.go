// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"

	netutils "k8s.io/utils/net"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// nodeFacts are the facts that both the kubelet's file and a v1alpha1 file may have, and
// the origin of each for messages: a flag, or a file and its field.
type nodeFacts struct {
	dns                 []string
	domain, resolvConf  string
	dnsFrom, domainFrom string
	kubeletDNS          bool // dns is from the kubelet's file

	findings []policy.Finding
}

// readKubelet sets the facts from a KubeletConfiguration. As in the kubelet, a relative
// resolvConf is resolved from the directory of the file.
func (f *nodeFacts) readKubelet(files *Files, path string) error {
	data, err := files.Read(path)
	if err != nil {
		return fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	k, err := kube.ParseKubeletConfiguration(data)
	if err != nil {
		return multierr.Prefix(path, err)
	}
	f.dns, f.dnsFrom, f.kubeletDNS, f.resolvConf = k.ClusterDNS, path+": clusterDNS", true, kube.DefaultResolvConf
	f.domain, f.domainFrom = k.ClusterDomain, path+": clusterDomain"
	if k.ResolvConf != nil {
		f.resolvConf = relativeTo(path, *k.ResolvConf)
	}
	for _, key := range k.Misspelled {
		f.findings = append(f.findings, policy.Finding{
			Code: policy.CodeMisspelledField, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s: %s: unknown field, ignored by the kubelet and by dnsconfigurer", path, key),
			Field:   key, Hint: "spell it " + kube.KubeletField(key),
		})
	}
	return nil
}

// configure overrides the facts with those of c, the configuration at path.
func (f *nodeFacts) configure(c v1alpha1.NodeConfiguration, path string) {
	if c.ClusterDNS != nil {
		f.dns, f.dnsFrom, f.kubeletDNS = *c.ClusterDNS, path+": node.clusterDNS", false
	}
	if c.ClusterDomain != nil {
		f.domain, f.domainFrom = *c.ClusterDomain, path+": node.clusterDomain"
	}
	if c.ResolvConf != nil {
		f.resolvConf = *c.ResolvConf
	}
}

// node parses the facts and the rest of c, the configuration at path. An invalid address
// in the kubelet's clusterDNS is a finding and not an error, because the kubelet skips it.
func (f *nodeFacts) node(c v1alpha1.ShimConfiguration, path string) (Node, error) {
	n := Node{Name: c.Node.NodeName, uplink: c.Node.UplinkResolvConf, Findings: f.findings,
		origins: map[string]string{"clusterDomain": f.domainFrom, "autopath.suffix": path + ": autopath.suffix"}}
	n.ClusterDomain, n.ResolvConf = f.domain, f.resolvConf
	for i, s := range f.dns {
		a, ok := ParseAddr(s)
		switch {
		case ok:
			n.ClusterDNS = append(n.ClusterDNS, a)
		case f.kubeletDNS:
			n.Findings = append(n.Findings, policy.Finding{
				Code: policy.CodeInvalidClusterDNS, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
				Message: fmt.Sprintf("%s[%d]: %q is not an IP address: skipped by the kubelet", f.dnsFrom, i, s),
				Field:   policy.FieldClusterDNS, Hint: "give an IPv4 or IPv6 address without port and zone",
			})
		default:
			return n, fmt.Errorf("%s[%d]: %q is not an IP address", f.dnsFrom, i, s)
		}
	}
	for i, s := range c.Node.NodeIPs {
		a, ok := ParseAddr(s)
		if !ok {
			return n, fmt.Errorf("%s: node.nodeIPs[%d]: %q is not an IP address", path, i, s)
		}
		n.IPs = append(n.IPs, a)
	}
	n.Autopath = policy.Autopath{Suffix: c.Autopath.Suffix, ClusterDNSFallback: c.Autopath.ClusterDNSFallback}
	if s := c.Autopath.NodeCache; s != "" {
		a, ok := ParseAddr(s)
		if !ok {
			return n, fmt.Errorf("%s: autopath.nodeCache: %q is not an IP address", path, s)
		}
		n.Autopath.NodeCache = a
	}
	var err error
	if n.uplinkMode, err = hostresolv.ParseUplinkMode(c.Node.HostResolver); err != nil {
		return n, fmt.Errorf("%s: node.hostResolver: %w", path, err)
	}
	return n, nil
}

// ParseAddr parses an address as the kubelet does: leading zeros are allowed,
// zones are not, and IPv4 in IPv6 is IPv4.
func ParseAddr(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}
