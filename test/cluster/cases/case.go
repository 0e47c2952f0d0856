// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
