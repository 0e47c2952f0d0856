// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// HostPath is the path of the host's resolv.conf in every text of an Answer.
const HostPath = "/etc/resolv.conf"

// The values of Case.ResolvConfMode.
const (
	FileMode     = ""         // the kubelet uses HostResolvConf
	DisabledMode = "disabled" // the kubelet runs with --resolv-conf ""
	MissingMode  = "missing"  // the file does not exist
)

// Case is the input of a kubelet for a pod's sandbox. The JSON form is defined by
// testdata/kubelet-300.ndjson, which has a few more fields.
type Case struct {
	ID             string      `json:"id"`
	Pod            *corev1.Pod `json:"pod"`
	HostResolvConf string      `json:"hostResolvConf"`
	HostSize       int         `json:"hostSize,omitempty"` // fill the file with a comment up to this size
	ResolvConfMode string      `json:"resolvConfMode,omitempty"`
	ClusterDNS     []string    `json:"clusterDNS"`
	ClusterDomain  string      `json:"clusterDomain"`
	NodeIPs        []string    `json:"nodeIPs,omitempty"`
	NodeName       string      `json:"nodeName,omitempty"` // "": node-1
	Manifest       bool        `json:"manifest,omitempty"` // Pod is a manifest in the static pod directory

	Expected *Answer `json:"expected,omitempty"`
	Kubelet  *Answer `json:"kubelet,omitempty"` // the kubelet's answer, if Expected is that to the twin
}

// Answer is the result of a kubelet for a Case. Lists are in its order, except Options,
// which are sorted: the kubelet's order is random.
type Answer struct {
	Servers  []string `json:"servers"`
	Searches []string `json:"searches"`
	Options  []string `json:"options"`
	Hostname string   `json:"hostname"`

	// Domain follows the short hostname in the pod's FQDN.
	Domain string `json:"domain,omitempty"`

	Error      string  `json:"error"`
	ErrorStage string  `json:"errorStage,omitempty"`
	Events     []Event `json:"events"`

	// NodeEvents are the events that the kubelet sends once, when it starts.
	NodeEvents []Event `json:"nodeEvents,omitempty"`

	// ContainerError stops the containers of a pod on the host network, whose sandbox has
	// no hostname.
	ContainerError string `json:"containerError,omitempty"`

	// PodName is the kubelet's name of a static pod.
	PodName string `json:"podName,omitempty"`
}

// The values of Answer.ErrorStage.
const (
	DecodeStage   = "decode" // the manifest cannot be decoded
	DNSStage      = "dns"
	HostnameStage = "hostname"
)

// Event is an event that a kubelet sends.
type Event struct {
	Object  string `json:"object"` // "Pod <namespace>/<name>" or "Node <name>"
	UID     string `json:"uid,omitempty"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Node returns the node's name.
func (c *Case) Node() string { return cmp.Or(c.NodeName, "node-1") }

// HostText returns the host's file.
func (c *Case) HostText() string {
	text := c.HostResolvConf
	if fill := c.HostSize - len(text) - len("\n#"); fill > 0 {
		text += "\n#" + strings.Repeat("-", fill)
	}
	return text
}

// String returns c as one line of JSON, for a replay.
func (c *Case) String() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

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
