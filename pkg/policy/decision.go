// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Decision is the DNS configuration and the host name of a pod, with the reason for every
// entry. It shares no memory with the Pod. Ignored shares memory with the File.
type Decision struct {
	// The entries of the pod's resolv.conf, in order.
	Nameservers []Entry
	Searches    []Entry
	Options     []Entry

	// Hostname is the kernel's host name in the pod. It is "" on the host's network,
	// where the pod has the node's, and if the kubelet refuses the name.
	Hostname string

	// FQDN is Hostname with the domain of spec.subdomain; "" without a subdomain.
	FQDN string

	// Error is the error of the kubelet that refuses to create the pod's sandbox; ""
	// if it creates the sandbox. If the kubelet refuses the host file, the three lists
	// are empty; if it refuses the host name, they are complete.
	Error string

	// Dropped holds the entries of the host's file, of the base and of the pod that are
	// not in the pod's resolv.conf, each with the rule that dropped it.
	Dropped []Entry

	// Ignored holds the lines and values of the host's file that the kubelet ignores
	// when it reads the file.
	Ignored []resolvconf.IgnoredEntry

	// Steps holds the rules that apply to the pod as a whole, in order.
	Steps []Rule

	// NodeRules holds the rules in Steps that node rules have applied, in order.
	NodeRules []AppliedRule

	// Findings is in the order in which the kubelet reports them. It has at most
	// MaxFindings with the same code; Finding.More counts the others.
	Findings []Finding

	hostFile string // path of the host's file, for messages
	path     string // Pod.Path
	kubelet  bool   // keep unsafe values, as a kubelet does, and record nothing
}

// Config returns the pod's resolv.conf.
func (d *Decision) Config() resolvconf.Config {
	all := make([]string, 0, len(d.Nameservers)+len(d.Searches)+len(d.Options))
	texts := func(entries []Entry) []string {
		from := len(all)
		for i := range entries {
			all = append(all, entries[i].Text)
		}
		return all[from:len(all):len(all)]
	}
	return resolvconf.Config{Nameservers: texts(d.Nameservers), Searches: texts(d.Searches), Options: texts(d.Options)}
}

// Starts reports whether the pod starts. It considers everything for which the kubelet
// refuses a pod, and those rules of the API server that concern dnsPolicy and the pod's
// name.
func (d *Decision) Starts() bool {
	for _, f := range d.Findings {
		if f.Severity == SeverityError && f.EnforcedBy != EnforcedByDNSConfigurer {
			return false
		}
	}
	return d.Error == ""
}

func (d *Decision) addStep(r Rule) { d.Steps = append(d.Steps, r) }

// addFinding adds f. It puts Pod.Path before a Field of the pod.
func (d *Decision) addFinding(f Finding) {
	if strings.HasPrefix(f.Field, "spec.") || strings.HasPrefix(f.Field, "metadata.annotations") {
		f.Field = d.path + f.Field // not metadata.name: a template has none
	}
	if !d.kubelet && !omitFinding(d.Findings, f.Code) {
		f.Message = excerpt.Text(f.Message, maxMessage)
		d.Findings = append(d.Findings, f)
	}
}

// report adds a finding about which the kubelet sends no event.
func (d *Decision) report(s Severity, by Enforcer, code Code, field, message, hint string) {
	d.addFinding(Finding{Code: code, Severity: s, EnforcedBy: by, Message: message, Field: field, Hint: hint})
}

func (d *Decision) drop(e Entry, r Rule) {
	if d.kubelet {
		return
	}
	e.Rule = r
	if n := len(d.Dropped); n == cap(d.Dropped) {
		d.Dropped = slices.Grow(d.Dropped, n+1) // append would copy the 9 MB of 230,000 options four times
	}
	d.Dropped = append(d.Dropped, e)
}

// list returns the list of the entries of kind k.
func (d *Decision) list(k Kind) *[]Entry {
	switch k {
	case KindNameserver:
		return &d.Nameservers
	case KindSearch:
		return &d.Searches
	default:
		return &d.Options
	}
}

// Finding is a problem of a pod or of a node, for its owner.
type Finding struct {
	Code       Code
	Severity   Severity
	EnforcedBy Enforcer // the component that acts on it

	// Reason is the reason of the kubelet's event about the problem, and Message is then
	// the exact text of this event, or its beginning if it has more than 16 KiB. Reason is ""
	// if the kubelet sends no event.
	Reason  string
	Message string

	Field string // the field to change: a path in the pod's object, or FieldResolvConf or FieldClusterDNS
	Hint  string // what to change

	// More is the number of further findings with this code that are left out. Only the
	// last of MaxFindings has any.
	More int
}

// MaxFindings is the largest number of findings with the same code. A pod may have 200,000
// unsafe options: the API server limits neither their number nor their text, and findings
// are logged, sent as events and returned by webhooks.
const MaxFindings = 100

// The values of Finding.Field for settings of the node, named as in its
// KubeletConfiguration. Every other value is a path in the pod's object.
const (
	FieldResolvConf = "resolvConf"
	FieldClusterDNS = "clusterDNS"
)

// maxMessage is the limit of a Message and of Decision.Error, in bytes. No text about a pod that
// the API server accepts is longer: the longest text quotes a search line of 2,048 bytes, and
// quoting may take six bytes for each of them. The texts about a pod in a webhook may be longer,
// because the API server has not checked its names yet.
const maxMessage = 16 << 10

// omitFinding reports whether found has MaxFindings with this code. It then counts one more.
func omitFinding(found []Finding, code Code) bool {
	if len(found) < MaxFindings {
		return false
	}
	n, last := 0, -1
	for i := len(found) - 1; i >= 0; i-- {
		if found[i].Code != code {
			continue
		}
		if n++; last < 0 {
			last = i
		}
		if n == MaxFindings || found[last].More > 0 {
			found[last].More++
			return true
		}
	}
	return false
}

// IsError reports whether f has severity error.
func (f Finding) IsError() bool { return f.Severity == SeverityError }

// Severity ranks findings.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // the pod does not start, or not as specified
	SeverityWarning Severity = "warning" // the pod starts, but its DNS is not as specified or is likely to fail
	SeverityInfo    Severity = "info"    // the pod's DNS works, but not with every C library or system
)

// Enforcer is the component that acts on the problem of a Finding.
type Enforcer string

// The enforcers.
const (
	EnforcedByAPIServer     Enforcer = "apiserver"     // refuses the object
	EnforcedByNode          Enforcer = "node"          // the kubelet, or the runtime, with the kubelet's configuration
	EnforcedByDNSConfigurer Enforcer = "dnsconfigurer" // no other component checks it
)

// Code identifies a kind of Finding. Codes are stable.
type Code string

// The codes.
const (
	CodeUnknownPolicy       Code = "unknown-policy"
	CodeUnknownOverride     Code = "unknown-policy-annotation"
	CodeForbiddenOverride   Code = "forbidden-policy-annotation"
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
	CodeUplinkUsed          Code = "uplink-file-used"
)

// Reasons of the kubelet's events.
const (
	reasonForming  = "DNSConfigForming"
	reasonMissing  = "MissingClusterDNS"
	reasonSandbox  = "FailedCreatePodSandBox"
	reasonHostFile = "CheckLimitsForResolvConf"
)
