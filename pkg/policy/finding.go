// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

// Finding is something that the owner of a pod or of a node should know.
type Finding struct {
	Code       Code
	Severity   Severity
	EnforcedBy Enforcer // who acts on it

	// Reason is the reason of the event that the kubelet sends for this, and
	// Message then its exact text; "" when the kubelet sends none.
	Reason  string
	Message string

	Field string // the field to change: a path in the pod's object, or FieldResolvConf or FieldClusterDNS
	Hint  string // what to do
}

// The values of Field that name a fact about the node, as its KubeletConfiguration
// does. Every other Field is a path in the object that the pod is in.
const (
	FieldResolvConf = "resolvConf"
	FieldClusterDNS = "clusterDNS"
)

// IsError tells whether f is of severity error.
func (f Finding) IsError() bool { return f.Severity == SeverityError }

// Severity ranks findings.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // the pod does not start, or not as it says
	SeverityWarning Severity = "warning" // the pod starts with other DNS than it asks for, or with a trap
	SeverityInfo    Severity = "info"    // it works, but not everywhere
)

// Enforcer is the component that acts on what a Finding says.
type Enforcer string

// The enforcers.
const (
	EnforcedByAPIServer     Enforcer = "apiserver"     // refuses the object
	EnforcedByNode          Enforcer = "node"          // the kubelet, or what runs on its answer
	EnforcedByDNSConfigurer Enforcer = "dnsconfigurer" // nobody else looks
)

// Code names a kind of Finding. Codes are stable.
type Code string

// The codes.
const (
	CodeUnknownPolicy       Code = "unknown-policy"
	CodeUnknownOverride     Code = "unknown-policy-annotation"
	CodeHostNetworkDefault  Code = "host-network-cluster-first"
	CodeMissingClusterDNS   Code = "missing-cluster-dns"
	CodeNodeMissingDNS      Code = "node-missing-cluster-dns"
	CodeHostFileRefused     Code = "host-file-refused"
	CodeHostFileNotNeeded   Code = "host-file-not-needed"
	CodeWindowsHostNet      Code = "windows-host-network"
	CodeWindowsSuffix       Code = "windows-one-suffix"
	CodeAutopathUnavailable Code = "autopath-unavailable"
	CodeForeignNameserver   Code = "foreign-nameserver"
	CodeUnsafeValue         Code = "unsafe-value"
	CodeEmptyConfig         Code = "empty-config"
	CodeLoopbackServer      Code = "loopback-nameserver"
	CodeUnusableDomain      Code = "unusable-search-domain"
	CodeInvalidName         Code = "invalid-pod-name"
	CodeInvalidHostname     Code = "invalid-hostname"
	CodeInvalidSubdomain    Code = "invalid-subdomain"
	CodeInvalidOverride     Code = "invalid-hostname-override"
	CodeHostnameCut         Code = "hostname-cut"
	CodeFQDNTooLong         Code = "fqdn-too-long"
	CodeServerLimit         Code = "nameserver-limit"
	CodeSearchLimit         Code = "search-limit"
	CodeMuslSearchLine      Code = "musl-search-line"
	CodeOldGlibcSearch      Code = "old-glibc-search"
	CodeGlibcCrashes        Code = "glibc-dies"
	CodeMuslCrashes         Code = "musl-dies"
	CodeNodeHostFile        Code = "node-host-file"
	CodeIgnoredHostLine     Code = "ignored-host-line"
	CodeInvalidClusterDNS   Code = "invalid-cluster-dns"
	CodeMisspelledField     Code = "misspelled-kubelet-field"
	CodeUplinkUnusable      Code = "uplink-file-unusable"
)

// Reasons of the kubelet's events.
const (
	reasonForming  = "DNSConfigForming"
	reasonMissing  = "MissingClusterDNS"
	reasonSandbox  = "FailedCreatePodSandBox"
	reasonHostFile = "CheckLimitsForResolvConf"
)
