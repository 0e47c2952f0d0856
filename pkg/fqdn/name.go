// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import (
	"errors"
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

// MaxWire is the length of the longest name in wire format, including the empty label of the
// root (RFC 1035 section 2.3.4).
const MaxWire = 255

// Name is a domain name in canonical form (RFC 4034 section 6.2): the labels in wire format,
// uncompressed, each after its length, with A to Z in lower case, and the zero octet of the
// root at the end. Two names are the same if and only if they are equal strings. A dot
// inside a label is not mistaken for a separator.
//
// The zero Name is not a name; the root is "\x00".
type Name string

// Root is the name of the root.
const Root Name = "\x00"

// ParseName parses a name in text form, with or without a trailing dot, with the escapes \X
// and \DDD (RFC 1035 section 5.1). The error describes the problem and does not contain
// text.
func ParseName(text string) (Name, error) {
	switch text {
	case "":
		return "", errors.New("is empty")
	case ".":
		return Root, nil
	}
	wire, start := make([]byte, 1, len(text)+2), 0      // start is the index of the last length octet
	for i := 0; i < len(text) || start < len(wire)-1; { // the trailing dot is optional
		if i == len(text) || text[i] == '.' {
			switch n := len(wire) - start - 1; {
			case n == 0:
				return "", errors.New("has an empty label")
			case n > MaxLabel:
				return "", fmt.Errorf("has a label of %d bytes, a label has at most %d", n, MaxLabel)
			default:
				wire[start] = byte(n)
			}
			start = len(wire)
			wire = append(wire, 0)
			i++
			continue
		}
		c, n := unescape(text[i:])
		if n == 0 {
			return "", errors.New("has a broken escape")
		}
		wire = append(wire, lower(c))
		i += n
	}
	if len(wire) > MaxWire {
		return "", fmt.Errorf("is %d bytes long on the wire, a domain name has at most %d", len(wire), MaxWire)
	}
	return Name(wire), nil
}

// unescape returns the first character of text and the number of bytes that encode it, or 0
// for an invalid escape.
func unescape(text string) (c byte, n int) {
	if text[0] != '\\' {
		return text[0], 1
	}
	if len(text) < 2 {
		return 0, 0
	}
	if !isDigit(text[1]) {
		return text[1], 2
	}
	if len(text) < 4 || !isDigit(text[2]) || !isDigit(text[3]) {
		return 0, 0
	}
	v := int(text[1]-'0')*100 + int(text[2]-'0')*10 + int(text[3]-'0')
	if v > 255 {
		return 0, 0
	}
	return byte(v), 4
}

// String returns the name in text form with a trailing dot, escaped where necessary. It
// returns "" for the zero Name.
func (n Name) String() string {
	if n == Root {
		return "."
	}
	var b strings.Builder
	b.Grow(len(n)) // each length octet is a dot
	for n != "" && n != Root {
		label, parent := n.Cut()
		for i := range len(label) {
			switch c := label[i]; {
			case c < '!' || c > '~':
				fmt.Fprintf(&b, `\%03d`, c)
			case strings.IndexByte(`."();@\$`, c) >= 0:
				b.WriteByte('\\')
				b.WriteByte(c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('.')
		n = parent
	}
	return b.String()
}

// Cut returns the first label, without its length octet, and the parent name. Both are "" for
// the root and the zero Name.
func (n Name) Cut() (label string, parent Name) {
	if len(n) < 2 {
		return "", ""
	}
	end := 1 + int(n[0])
	return string(n[1:end]), n[end:]
}

// Within reports whether n is zone or a name below it, and returns the labels of n before
// zone, in wire format; they are "" if n is zone.
func (n Name) Within(zone Name) (below Name, ok bool) {
	if !strings.HasSuffix(string(n), string(zone)) || zone == "" {
		return "", false
	}
	// The bytes of zone may also be the end of a longer label.
	cut := len(n) - len(zone)
	i := 0
	for i < cut {
		i += 1 + int(n[i])
	}
	return n[:cut], i == cut
}

// Join returns the name that consists of labels and parent. It panics if a label is empty or
// too long, or if the name is too long.
func Join(parent Name, labels ...string) Name {
	var b strings.Builder
	for _, l := range labels {
		if l == "" || len(l) > MaxLabel {
			panic(fmt.Sprintf("fqdn: label %q has %d bytes", l, len(l)))
		}
		b.WriteByte(byte(len(l)))
		for i := range len(l) {
			b.WriteByte(lower(l[i]))
		}
	}
	b.WriteString(string(parent))
	if b.Len() > MaxWire {
		panic("fqdn: name too long: " + b.String())
	}
	return Name(b.String())
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
