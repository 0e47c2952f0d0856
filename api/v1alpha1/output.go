// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"time"
)

// VersionResult is what `version -o json` prints.
type VersionResult struct {
	Version   string `json:"version"`   // of the program, such as v0.1.0
	GoVersion string `json:"goVersion"` // of the compiler, such as go1.26.0
	OS        string `json:"os"`        // as GOOS of Go, such as linux
	Arch      string `json:"arch"`      // as GOARCH of Go, such as amd64
}

// String returns the line that `version` prints.
func (v VersionResult) String() string {
	return fmt.Sprintf("dnsconfigurer %s %s %s/%s\n", v.Version, v.GoVersion, v.OS, v.Arch)
}

// RenderResult is one line of `render -o json`: what a pod gets. Lists are never null. A pod of
// Windows, which has no resolv.conf, gets the first search domain alone, and no options.
type RenderResult struct {
	File     string `json:"file"`
	Document int    `json:"document"` // number in the file, from 1
	Line     int    `json:"line"`     // of the object in the file, from 1
	Column   int    `json:"column"`   // 0: not known
	Source   string `json:"source"`   // Helm's template; "": the document does not name one

	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	Nameservers []string `json:"nameservers"`
	Searches    []string `json:"searches"`
	Options     []string `json:"options"`

	Hostname string `json:"hostname"` // "": the node's
	FQDN     string `json:"fqdn"`     // "": the pod has no domain

	Findings []Finding `json:"findings"`

	// Error is the kubelet's error if it would refuse to create the pod's sandbox.
	Error string `json:"error"`
}

// ValidateResult is one line of `validate -o json`: an object and its findings, or a document
// that could not be read and its Error. Findings is never null; it is empty if the object is
// valid.
type ValidateResult struct {
	File     string `json:"file"`
	Document int    `json:"document"` // number in the file, from 1
	Line     int    `json:"line"`     // of the object in the file, from 1; 0: the file as a whole
	Column   int    `json:"column"`   // 0: not known
	Source   string `json:"source"`   // Helm's template; "": the document does not name one

	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Owner     string `json:"owner,omitempty"` // controller, such as "DaemonSet agent"; "": none

	Findings []Finding `json:"findings"`

	Field string `json:"field,omitempty"` // of Error
	Error string `json:"error,omitempty"` // why the document could not be read
	Hint  string `json:"hint,omitempty"`  // how to correct it
}

// Finding is a problem or a remark about the DNS of a pod or a node.
type Finding struct {
	Code       string `json:"code"`
	Severity   string `json:"severity"`   // error, warning, info
	EnforcedBy string `json:"enforcedBy"` // apiserver, node, dnsconfigurer
	Reason     string `json:"reason"`     // of the kubelet's event; "": there is no event
	Field      string `json:"field"`
	File       string `json:"file,omitempty"`   // of `config check`; other commands have it beside the findings
	Line       int    `json:"line,omitempty"`   // of the field in the file, from 1; 0: it is not in one
	Column     int    `json:"column,omitempty"` // in characters, from 1
	Message    string `json:"message"`          // the text of the event if there is one
	Hint       string `json:"hint"`
	More       int    `json:"more,omitempty"` // further findings with this code that are left out
}

// LookupResult is what `lookup -o json` prints: the queries of one lookup in the order in
// which they were sent. Lists are never null.
type LookupResult struct {
	File     string `json:"file"`     // of the pod, or of the object that creates it
	Document int    `json:"document"` // number in the file, from 1

	Pod  string `json:"pod"` // namespace/name
	Name string `json:"name"`
	Type string `json:"type"` // "A+AAAA" if the command line has no type
	Libc string `json:"libc"` // the value of --libc: glibc, musl, musl-1.2.3 or go

	Queries    []LookupQuery `json:"queries"`
	Addresses  []string      `json:"addresses"`
	QueryCount int           `json:"queryCount"`

	// NotAsked are the names outside the cluster for which no query was sent, because no
	// server is configured for them, and those of Absences that are unknown. If Addresses is
	// empty, it is unknown whether the name has addresses. Absent: there are none.
	NotAsked []string `json:"notAsked,omitempty"`

	// Absences are the reasons why names of the cluster do not exist, if the lookup fails.
	Absences []LookupAbsence `json:"absences,omitempty"`

	// Synthetic are the addresses in Answers and Addresses that a cluster would assign.
	// They are in 198.18.0.0/15 and 2001:2::/48. Absent: there are none.
	Synthetic []string `json:"synthetic,omitempty"`

	// Policy is the DNS policy that replaces the pod's own in this result. Set by
	// `lookup --compare` only, which prints two results, as are Hops and Agree.
	Policy string `json:"policy,omitempty"`

	// Hops are the hops between pod, caches and servers, with their queries.
	Hops []LookupHop `json:"hops,omitempty"`

	// Agree reports whether the program gets the same result by both policies. Absent: it
	// is unknown, because a result depends on a name in NotAsked.
	Agree *bool `json:"agree,omitempty"`
}

// LookupHop is the number of queries that one server sends to the next in a lookup.
type LookupHop struct {
	From    string `json:"from"` // pod, node cache or cluster DNS
	To      string `json:"to"`   // node cache, cluster DNS, upstream, or the address of another nameserver
	Queries int    `json:"queries"`
	Derived bool   `json:"derived,omitempty"` // computed from the queries of the hop before; none was sent
}

// LookupQuery is one query of a lookup.
type LookupQuery struct {
	Name   string `json:"name"` // with the final dot
	Type   string `json:"type"`
	Server string `json:"server"` // as in the pod's resolv.conf, or the server of --server

	// Rcode is the rcode of the reply, such as NXDOMAIN. Without a reply it is in lower
	// case: timeout, unreachable, overtaken (musl: another server replied first),
	// malformed (musl 1.2.3: the name does not fit a query), not asked (see
	// notAsked of the result).
	Rcode   string   `json:"rcode"`
	Answers []string `json:"answers"` // "owner ttl class type data"

	// ExtendedErrors are the extended DNS errors of the reply (RFC 8914), which a library gets if its query
	// has an OPT record: Go, and glibc with the option edns0. Absent: there are none.
	ExtendedErrors []string `json:"extendedErrors,omitempty"`

	Micros int64 `json:"micros"` // until the reply or the timeout; 0 without --server and --upstream
}

// LookupAbsence is the reason why a name of the cluster does not exist.
type LookupAbsence struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Unknown bool   `json:"unknown"` // the name may exist: the manifests lack the objects that decide it
}

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
	Role        string   `json:"role"`     // service, nodecache, endpoint, or flag
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

// AdviseResult is what `advise -o json` prints: what workloads ask DNS servers, and the changes that save queries.
// Lists are never null.
type AdviseResult struct {
	Servers       int              `json:"servers"`       // whose counts were read
	Hours         float64          `json:"hours"`         // that the counts cover, at most; figures are extrapolated to a day
	QueriesPerDay uint64           `json:"queriesPerDay"` // of all workloads
	OthersPerDay  uint64           `json:"othersPerDay"`  // of nodes, ended pods, pods outside of -n, and clients without a counter
	Workloads     []WorkloadAdvice `json:"workloads"`     // those that can save most first
	NotRead       []string         `json:"notRead"`       // servers whose counts could not be read, and why
}

// WorkloadAdvice is what a workload asks, and what it could save.
type WorkloadAdvice struct {
	Namespace     string `json:"namespace"`
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Pods          int    `json:"pods"` // that asked
	QueriesPerDay uint64 `json:"queriesPerDay"`
	WastedPerDay  uint64 `json:"wastedPerDay"` // for names that a search list made, and that do not exist
	FailedPerDay  uint64 `json:"failedPerDay"` // with SERVFAIL or REFUSED
	SavesPerDay   uint64 `json:"savesPerDay"`  // with all cures
	Cures         []Cure `json:"cures"`        // the one that saves most first
}

// Cure is a change that saves queries.
type Cure struct {
	Code        string `json:"code"` // absent-name, ndots, final-dot or full-name
	SavesPerDay uint64 `json:"savesPerDay"`
	Message     string `json:"message"`
	Patch       string `json:"patch,omitempty"` // the command that makes the change
}

// ConformanceResult is what `conformance -o json` prints: the requirements of a cluster DNS server, and whether the
// server meets them.
type ConformanceResult struct {
	Server string            `json:"server"`
	Rules  []ConformanceRule `json:"rules"`
}

// ConformanceRule is the result of a requirement.
type ConformanceRule struct {
	ID        string   `json:"id"`
	Level     string   `json:"level"`  // MUST or SHOULD
	Source    string   `json:"source"` // such as RFC 8906 8.1.2
	Text      string   `json:"text"`
	Questions int      `json:"questions"` // that were asked; 0: the cluster has no object for one
	Failed    int      `json:"failed"`
	Failures  []string `json:"failures"` // the first five: name, type and what is wrong
}
