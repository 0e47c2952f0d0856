// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RenderedPod is one line of `render -o json`: what a pod gets. Lists are never
// null.
type RenderedPod struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	Nameservers []string `json:"nameservers"`
	Searches    []string `json:"searches"`
	Options     []string `json:"options"`

	Hostname string `json:"hostname"` // "": the node's
	FQDN     string `json:"fqdn"`     // "": the pod has no domain

	Findings []Finding `json:"findings"`

	// Error is the kubelet's error when it would not make the pod's sandbox.
	Error string `json:"error"`
}

// Finding is something that the owner of a pod or a node should know.
type Finding struct {
	Code       string `json:"code"`
	Severity   string `json:"severity"`   // error, warning, info
	EnforcedBy string `json:"enforcedBy"` // apiserver, node, dnsconfigurer
	Reason     string `json:"reason"`     // of the kubelet's event; "": it sends none
	Field      string `json:"field"`
	Message    string `json:"message"` // the event's text where there is an event
	Hint       string `json:"hint"`
}
