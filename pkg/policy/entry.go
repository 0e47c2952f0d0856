// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// Kind is the list of a resolv.conf to which an entry belongs.
type Kind uint8

// The kinds.
const (
	KindNameserver Kind = iota
	KindSearch
	KindOption
)

var kinds = [...]struct{ keyword, list string }{
	KindNameserver: {"nameserver", "nameservers"},
	KindSearch:     {"search", "searches"},
	KindOption:     {"options", "options"},
}

// String returns the keyword of resolv.conf(5), or "" if k is not one of the constants.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return ""
	}
	return kinds[k].keyword
}

// Origin is the file or setting that an entry comes from.
type Origin uint8

// The origins, each with the meaning of Source.Index.
const (
	FromHost          Origin = iota // the host's resolv.conf; line number, from 1
	FromClusterDNS                  // Node.ClusterDNS; index in the slice
	FromClusterDomain               // Node.ClusterDomain; always 0
	FromNodeCache                   // Node.Autopath.NodeCache; always 0
	FromNodeIP                      // Node.IPs; index in the slice
	FromRule                        // the rule itself, such as ndots:5; always 0
	FromPod                         // the list of the pod's DNSConfig; index in the slice
	FromNodeRule                    // Node.Rules; index in the slice
)

// Source is the position that an entry comes from.
type Source struct {
	Origin Origin
	Index  int32 // a host file has fewer than resolvconf.MaxFile lines
}

// Entry is one value, with its source and the rule that kept or dropped it.
type Entry struct {
	Text   string
	Kind   Kind
	Rule   Rule
	Source Source
}

// source returns the source of e as text, such as "clusterDNS[0]".
func (d *Decision) source(e Entry) string {
	index := strconv.Itoa(int(e.Source.Index))
	switch e.Source.Origin {
	case FromHost:
		return d.hostFile + ":" + index
	case FromClusterDNS:
		return "clusterDNS[" + index + "]"
	case FromClusterDomain:
		return "clusterDomain"
	case FromNodeCache:
		return "nodeCache"
	case FromNodeIP:
		return "nodeIPs[" + index + "]"
	case FromPod:
		return d.path + dnsConfigField(e.Kind, e.Source.Index)
	case FromNodeRule:
		return nodeRuleField(int(e.Source.Index))
	default:
		return "built in"
	}
}

// nodeRuleField returns the path of a node rule in the configuration of a node.
func nodeRuleField(i int) string { return "node.rules[" + strconv.Itoa(i) + "]" }

// dnsConfigField returns the path of an entry of a pod's dnsConfig.
func dnsConfigField(k Kind, i int32) string {
	return "spec.dnsConfig." + kinds[k].list + "[" + strconv.Itoa(int(i)) + "]"
}

// field returns the field to change to remove e.
func (e Entry) field() string {
	switch e.Source.Origin {
	case FromPod:
		return dnsConfigField(e.Kind, e.Source.Index)
	case FromClusterDNS:
		return FieldClusterDNS
	case FromClusterDomain:
		return "metadata.namespace" // not the cluster domain, which New has checked
	case FromNodeRule:
		return "spec.subdomain" // not an option of the rule, which New has checked
	default:
		return FieldResolvConf
	}
}

// isUnsafe reports whether text would break out of its place in a resolv.conf. A newline
// starts another line, a NUL ends the file for a reader in C, and a space inside a domain
// makes two domains of it. A space elsewhere is safe: it spoils only its own value, and a
// nameserver followed by a comment works. Text that is not UTF-8 cannot be in a request to a
// container runtime: its fields are protobuf strings.
func isUnsafe(k Kind, text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= utf8.RuneSelf { // rare
			return k == KindSearch && strings.ContainsFunc(text, unicode.IsSpace) ||
				strings.ContainsAny(text, "\n\x00") || !utf8.ValidString(text)
		}
	}
	return false
}

// omitsUnsafe reports whether e must not be in d because it is unsafe. It then drops e.
func (d *Decision) omitsUnsafe(e Entry) bool {
	if d.kubelet || !isUnsafe(e.Kind, e.Text) {
		return false
	}
	d.drop(e, ruleUnsafeValue)
	if !omitFinding(d.Findings, CodeUnsafeValue) { // before the texts are made
		d.report(SeverityError, EnforcedByDNSConfigurer, CodeUnsafeValue, e.field(), unsafeMessage(e.Kind, e.Text),
			"remove newlines, NULs and spaces inside domains")
	}
	return true
}

func unsafeMessage(k Kind, text string) string {
	if !utf8.ValidString(text) {
		return fmt.Sprintf("%s %s is not UTF-8 and is dropped", k, excerpt.Quote(text))
	}
	return fmt.Sprintf("%s %s would break out of its line in resolv.conf and is dropped", k, excerpt.Quote(text))
}
