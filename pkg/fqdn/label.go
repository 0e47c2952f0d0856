// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import (
	"fmt"
	"strings"
)

// Limits of names, in bytes.
const (
	// MaxName is the length of the longest domain name in text form without a trailing
	// dot: 255 octets on the wire (RFC 1035 section 2.3.4) less the first length octet and
	// the root.
	MaxName = 253

	// MaxLabel is the length of the longest label (RFC 1035 section 2.3.4).
	MaxLabel = 63
)

// LabelProblems returns the reasons why s is not a DNS-1123 label, in the words of the
// Kubernetes API, or nil if s is one. The kubelet's errors for invalid host names contain
// these words.
func LabelProblems(s string) []string {
	var problems []string
	if len(s) > MaxLabel {
		problems = append(problems, tooLong(MaxLabel))
	}
	switch {
	case isLabel(s):
	case isSubdomain(s):
		problems = append(problems, "must not contain dots")
	default:
		problems = append(problems, mismatch(
			"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "+
				"and must start and end with an alphanumeric character",
			"[a-z0-9]([-a-z0-9]*[a-z0-9])?", "my-name", "123-abc"))
	}
	return problems
}

// SubdomainProblems returns the reasons why s is not a DNS-1123 subdomain, in the words of the
// Kubernetes API, or nil if s is one. Like the API it does not check the length of the labels.
func SubdomainProblems(s string) []string {
	var problems []string
	if len(s) > MaxName {
		problems = append(problems, tooLong(MaxName))
	}
	if !isSubdomain(s) {
		problems = append(problems, mismatch(
			"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "+
				"or '.', and must start and end with an alphanumeric character",
			`[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`, "example.com"))
	}
	return problems
}

// DomainProblem returns the reason why a resolver cannot look up names below the domain s,
// such as "has an empty label", or "" if it can. It checks lengths and empty labels only:
// every character is valid (RFC 2181 section 11), and so is a trailing dot.
func DomainProblem(s string) string {
	if s == "." {
		return ""
	}
	s = strings.TrimSuffix(s, ".")
	if len(s) > MaxName {
		return fmt.Sprintf("is %d bytes long, a domain name has at most %d", len(s), MaxName)
	}
	label := 0 // length of the current label
	for i := range len(s) + 1 {
		switch {
		case i < len(s) && s[i] != '.':
			label++
		case label == 0:
			return "has an empty label"
		case label > MaxLabel:
			return fmt.Sprintf("has a label of %d bytes, a label has at most %d", label, MaxLabel)
		default:
			label = 0
		}
	}
	return ""
}

func isSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

// isLabel checks the characters only. The API reports the length separately.
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		inner := c == '-' && i > 0 && i < len(s)-1
		if !inner && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func tooLong(limit int) string {
	return fmt.Sprintf("must be no more than %d characters", limit)
}

func mismatch(rule, pattern string, examples ...string) string {
	quoted := make([]string, len(examples))
	for i, e := range examples {
		quoted[i] = "'" + e + "'"
	}
	// The API puts ", " after each example and " or " between them.
	return fmt.Sprintf("%s (e.g. %s, regex used for validation is '%s')", rule, strings.Join(quoted, ",  or "), pattern)
}

// Limits of host names, in bytes.
const (
	// MaxHostname is the length of the longest short host name of a pod. The kubelet
	// truncates a longer one.
	MaxHostname = 63

	// MaxNodename is the length of the longest host name in the kernel (__NEW_UTS_LEN in
	// linux/utsname.h). The kubelet refuses a pod with setHostnameAsFQDN whose FQDN is
	// longer.
	MaxNodename = 64
)

// CutHostname truncates name to MaxHostname bytes like the kubelet, which also removes '-' and
// '.' from the new end. It returns a name that is short enough unchanged, and "" if nothing
// remains.
func CutHostname(name string) string {
	if len(name) <= MaxHostname {
		return name
	}
	return strings.TrimRight(name[:MaxHostname], "-.")
}
