// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "time"

// NodePods is the output of the command pods with -o json, and the reply of the node agent.
type NodePods struct {
	Pods []NodePod `json:"pods"`

	// Omitted is the number of pods that have no files in Pods, because the reply would be too
	// large.
	Omitted int `json:"omitted,omitempty"`
}

// NodePod is a sandbox of the node.
type NodePod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Sandbox   string `json:"sandbox"`

	// Policy is the policy that the agent applies. "": the pod was not found.
	Policy string `json:"policy"`

	// Source is where the policy comes from: "spec" or "annotation".
	Source string `json:"source"`

	// Outcome is that of the decision, as in the metrics. "": there is none yet.
	Outcome string `json:"outcome"`

	// Refresh is the scope that applies to the pod: that of the configuration, or "always" or
	// "never" of its annotation.
	Refresh string `json:"refresh"`

	Path     string `json:"path"`     // of the file; "": the pod has no container
	Expected string `json:"expected"` // text of the last decision; "": there is none
	Actual   string `json:"actual"`   // text of the file

	// Drift is how the file differs: "missing", "unreadable", "empty", "different" or
	// "outdated". "": it does not, or there is no decision.
	Drift string `json:"drift"`

	LastRefresh *time.Time `json:"lastRefresh"` // null: none
	Restored    bool       `json:"restored"`    // the file has the kubelet's text by command
	Error       string     `json:"error,omitempty"`
}

// NodeResult is the result of a command for the file of a pod.
type NodeResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Result    string `json:"result"`
	Detail    string `json:"detail,omitempty"`
}

// String returns r on one line.
func (r NodeResult) String() string {
	line := r.Namespace + "/" + r.Name + ": " + r.Result
	if r.Detail != "" {
		line += ": " + r.Detail
	}
	return line
}

// AgentStatus is the state of the node agent.
type AgentStatus struct {
	Component string         `json:"component"` // "agent"
	Version   string         `json:"version"`
	Mode      string         `json:"mode"`
	Refresh   string         `json:"refresh"`
	Relays    int            `json:"relays"` // connections of NRI relays and shims
	Pods      int            `json:"pods"`
	Drift     map[string]int `json:"drift"` // pods by kind of drift
	Problems  []string       `json:"problems"`

	// NodeFacts are those that decide the DNS of pods.
	NodeFacts *NodeFacts `json:"nodeFacts,omitempty"`
}

// NodeFacts are the node facts of an agent.
type NodeFacts struct {
	ClusterDNS    []string `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
	ResolvConf    string   `json:"resolvConf"` // path; "": pods inherit nothing
}
