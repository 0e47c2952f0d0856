// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DoctorResult is what `doctor -o json` prints: what is wrong with the DNS of a cluster. Lists
// are never null.
type DoctorResult struct {
	Findings   []DoctorFinding    `json:"findings"`   // the most severe first
	NotChecked []DoctorNotChecked `json:"notChecked"` // neither healthy nor unhealthy
	Passed     int                `json:"passed"`     // the number of checks that ran without a finding

	Pod    *DoctorPod    `json:"pod,omitempty"` // the pod of --pod
	Probes []DoctorProbe `json:"probes"`        // by means, in the order in which they were sent
}

// DoctorFinding is a problem of the cluster's DNS.
type DoctorFinding struct {
	Code     string `json:"code"`     // stable; docs/debugging.md lists them
	Severity string `json:"severity"` // error, warning, info
	Object   string `json:"object"`   // such as "Service kube-system/kube-dns"
	Message  string `json:"message"`  // what is wrong

	Evidence []string `json:"evidence"`       // the values, lines or queries that show it
	Cause    string   `json:"cause"`          // why, or what follows from it
	Next     string   `json:"next"`           // the command to run next
	More     int      `json:"more,omitempty"` // further findings with this code that are left out
}

// DoctorNotChecked lists checks that could not run.
type DoctorNotChecked struct {
	Checks []string `json:"checks"` // codes; empty: parts of a check
	Why    string   `json:"why"`
}

// DoctorPod is what a pod should have, from the objects of the cluster.
type DoctorPod struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Policy     string   `json:"policy"`
	ResolvConf string   `json:"resolvConf"` // "": unknown
	Hostname   string   `json:"hostname"`   // "": the node's, or unknown
	FQDN       string   `json:"fqdn"`       // "": the pod has no domain
	Notes      []string `json:"notes"`      // what is unknown, and what a lookup costs
}

// DoctorProbe is one query to a DNS server.
type DoctorProbe struct {
	Server      string   `json:"server"`   // address and port
	Role        string   `json:"role"`     // service, endpoint, or flag
	Means       string   `json:"means"`    // who sent it: network (this machine) or ephemeral-container
	Protocol    string   `json:"protocol"` // udp or tcp
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	RCode       string   `json:"rcode"` // "": no reply
	Answers     []string `json:"answers"`
	Error       string   `json:"error,omitempty"` // why there is no reply
	StartMicros int64    `json:"startMicros"`     // since the first probe; ephemeral-container: since the first one of the container
	Micros      int64    `json:"micros"`          // until the reply, or the error
}
