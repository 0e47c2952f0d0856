// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Base is the origin of a pod's resolv.conf.
type Base string

// The bases.
const (
	NoBase      Base = "none"
	ClusterBase Base = "cluster"
	HostBase    Base = "host"
)

// Base returns the origin of the resolv.conf of c's pod: the rules of policies in one
// place, so that a case can tell which of its other facts matter.
func (c *Case) Base() Base {
	switch p := c.effectivePolicy(c.Pod.Spec.DNSPolicy); {
	case p == corev1.DNSNone:
		return NoBase
	case p == corev1.DNSDefault, len(c.clusterServers()) == 0:
		return HostBase
	}
	return ClusterBase
}

// effectivePolicy returns the policy that a kubelet applies if p is the pod's:
// ClusterFirst depends on the network, and an unknown policy means cluster DNS on every
// network.
func (c *Case) effectivePolicy(p corev1.DNSPolicy) corev1.DNSPolicy {
	if p == "" && c.Manifest {
		p = corev1.DNSClusterFirst // the API's default
	}
	switch {
	case p == corev1.DNSNone, p == corev1.DNSDefault:
		return p
	case p == corev1.DNSClusterFirst && c.Pod.Spec.HostNetwork:
		return corev1.DNSDefault
	}
	return corev1.DNSClusterFirstWithHostNet
}

// clusterServers returns the cluster's DNS servers as pods get them.
func (c *Case) clusterServers() []string {
	var servers []string
	for _, s := range c.ClusterDNS {
		if a, ok := ParseAddr(s); ok {
			servers = append(servers, a.String())
		}
	}
	return servers
}

// hostRefused reports whether the kubelet refuses the host file.
func (c *Case) hostRefused() bool {
	switch c.ResolvConfMode {
	case MissingMode:
		return true
	case DisabledMode:
		return false
	}
	bare := func(fields []string) bool { return len(fields) == 1 && fields[0] == "nameserver" }
	return len(c.HostText()) >= resolvconf.MaxFile || slices.ContainsFunc(c.HostLines(), bare)
}

// HostLines returns the fields of the lines of the host file that are neither blank nor a
// comment; nil without a file.
func (c *Case) HostLines() [][]string {
	if c.ResolvConfMode != FileMode {
		return nil
	}
	var lines [][]string
	for line := range strings.SplitSeq(c.HostResolvConf, "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0][0] != '#' {
			lines = append(lines, fields)
		}
	}
	return lines
}

// editHost replaces the fields of each line of the host file by the result of edit.
func (c *Case) editHost(edit func(fields []string) []string) {
	var b strings.Builder
	for _, fields := range c.HostLines() {
		b.WriteString(strings.Join(edit(fields), " ") + "\n")
	}
	c.HostResolvConf = b.String()
}
