// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "fmt"

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
	Owner     string `json:"owner,omitempty"` // controller of a pod, such as "DaemonSet agent"; "": none

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
	Server string `json:"server"` // as in the pod's resolv.conf

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
