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

// Rule is a rule of the engine. Its String is a stable identifier, explained in
// docs/checks.md. H, P, M, N and L are rules of the kubelet, A are the rules of
// ClusterFirstWithAutopath, R are node rules, and D are differences from the kubelet. Several
// Rules may have the same identifier.
type Rule uint8

// The rules, in the order of the engine's stages. The rules of the limits are exported: they
// distinguish the limits in Decision.Dropped.
const (
	_ Rule = iota

	// The choice of the base.
	ruleBaseNone
	ruleBaseCluster
	ruleBaseHost
	ruleBaseAutopath
	ruleHostNetworkAsDefault
	ruleUnknownAsCluster
	ruleWithoutClusterDNS
	ruleWithoutAutopath
	ruleHostDisabled
	ruleHostRefused

	// The entries of the base.
	ruleClusterServer
	ruleClusterDomain
	ruleClusterHostDomain
	ruleClusterNdots
	ruleHostEntry
	ruleNodeServer
	ruleNodeRootDomain
	ruleAutopathServer
	ruleAutopathDomain
	ruleNoneWithoutHost
	ruleClusterWithoutHost
	ruleAutopathWithoutHost

	// Merging dnsConfig.
	ruleMerge
	rulePodEntry
	rulePodOption
	ruleDuplicate
	ruleOverriddenOption
	ruleUnsafeValue

	// The host name.
	ruleHostnameOfNode
	ruleHostnameOverridden
	ruleHostnameOfPod
	ruleHostnameField
	ruleHostnameCut
	ruleDomainOfSubdomain
	ruleHostnameIsFQDN
	ruleHostnameRefused

	// The limits.
	RuleServerLimit
	RuleSearchLimit
	RuleDomainTooLong
	RuleSearchLineTooLong

	// The node rules.
	ruleOptions
	ruleOption
	ruleReplacedOption
	ruleHostOptions
	ruleHostOption
	ruleHostOptionOfBase
	ruleHostSearches
	ruleUnreachable
	ruleUnreachableKept
	ruleDuplicateAddress
	rulePodFirst
	ruleSubdomain
	ruleHostNetworkAsCluster
	ruleFamilies
	ruleFamiliesSorted
	ruleFamiliesKept
	ruleFamiliesUnknown
)

// The stages of an Engine.
const base, merge, hostname, limits = "base", "merge", "hostname", "limits"

var rules = [...]ruleInfo{
	ruleBaseNone:    {"P1", base, "None uses nothing of the node"},
	ruleBaseCluster: {"P1", base, "the policy uses the cluster's DNS"},
	ruleBaseHost:    {"P1", base, "Default uses the host's resolv.conf"},
	ruleBaseAutopath: {"A1", base,
		"the policy uses the cluster's DNS and one search domain, which the server expands"},
	ruleHostNetworkAsDefault: {"P1", base, "ClusterFirst on the host's network is treated as Default"},
	ruleUnknownAsCluster:     {"P2", base, "an unknown policy is treated as ClusterFirst on every network"},
	ruleWithoutClusterDNS:    {"P4", base, "the node has no cluster DNS: cluster policies are treated as Default"},
	ruleWithoutAutopath:      {"A2", base, "the autopath domain is not available: treated as ClusterFirstWithHostNet"},
	ruleHostDisabled:         {"H1", base, "the node has no resolv.conf for pods"},
	ruleHostRefused:          {"H2", base, "the pod needs the host's resolv.conf, which the kubelet refuses"},

	ruleClusterServer:       {"P3", base, "the cluster's DNS servers replace the host's"},
	ruleClusterDomain:       {"P3", base, "the pod's namespace, svc and the cluster domain are searched first"},
	ruleClusterHostDomain:   {"P3", base, "the host's search domains follow the cluster's"},
	ruleClusterNdots:        {"P3", base, "cluster policies set ndots:5"},
	ruleHostEntry:           {"P5", base, "copied from the host"},
	ruleNodeServer:          {"P5", base, "without a host file the node itself is the server"},
	ruleNodeRootDomain:      {"P5", base, "without a host file only the root is searched"},
	ruleAutopathServer:      {"A1", base, "one server that expands the search domain"},
	ruleAutopathDomain:      {"A1", base, "one search domain instead of the cluster's and the host's"},
	ruleNoneWithoutHost:     {"P1", base, "None uses nothing of the host"},
	ruleClusterWithoutHost:  {"P3", base, "cluster policies use only the search domains of the host"},
	ruleAutopathWithoutHost: {"A1", base, "the server has the host's search domains, the pod does not need them"},

	ruleMerge:            {"M1", merge, "dnsConfig follows the base, duplicates are dropped"},
	rulePodEntry:         {"M1", merge, "added by the pod"},
	rulePodOption:        {"M4", merge, "set by the pod"},
	ruleDuplicate:        {"M1", merge, "duplicate of an earlier entry"},
	ruleOverriddenOption: {"M4", merge, "overridden by the pod, whose last value wins"},
	ruleUnsafeValue:      {"D3", merge, "the value would break out of its line"},

	ruleHostnameOfNode:     {"N1", hostname, "on the host's network the host name is the node's"},
	ruleHostnameOverridden: {"N2", hostname, "hostnameOverride is the host name, without a domain"},
	ruleHostnameOfPod:      {"N3", hostname, "the host name is the pod's name"},
	ruleHostnameField:      {"N3", hostname, "the host name is spec.hostname"},
	ruleHostnameCut:        {"N4", hostname, "a host name of more than 63 bytes is truncated"},
	ruleDomainOfSubdomain:  {"N5", hostname, "spec.subdomain gives the pod a domain"},
	ruleHostnameIsFQDN:     {"N6", hostname, "setHostnameAsFQDN makes the FQDN the host name"},
	ruleHostnameRefused:    {"N7", hostname, "the kubelet refuses the name"},

	RuleServerLimit:       {"L1", limits, "at most 3 nameservers"},
	RuleSearchLimit:       {"L2", limits, "at most 32 search domains"},
	RuleDomainTooLong:     {"L2", limits, "a search domain has at most 253 bytes"},
	RuleSearchLineTooLong: {"L2", limits, "the search line has at most 2048 bytes, it is cut from its end"},

	ruleOptions:              {"R1", base, "options of a node rule"},
	ruleOption:               {"R1", base, "set by a node rule"},
	ruleReplacedOption:       {"R1", base, "replaced by a node rule"},
	ruleHostOptions:          {"R2", base, "the host's options are inherited"},
	ruleHostOption:           {"R2", base, "inherited from the host"},
	ruleHostOptionOfBase:     {"R2", base, "the cluster's option takes precedence over the host's"},
	ruleHostSearches:         {"R3", base, "search domains of the host are left out"},
	ruleUnreachable:          {"R4", base, "addresses of the node itself are left out"},
	ruleUnreachableKept:      {"R4", base, "addresses of the node itself are kept: there is no other nameserver"},
	ruleDuplicateAddress:     {"R5", merge, "a nameserver has the address of an earlier one"},
	rulePodFirst:             {"R6", merge, "the pod's nameservers and search domains precede the node's"},
	ruleSubdomain:            {"R7", base, "the domain of the pod's subdomain is searched"},
	ruleHostNetworkAsCluster: {"R8", base, "ClusterFirst on the host's network is treated as ClusterFirstWithHostNet"},
	ruleFamilies:             {"R9", merge, "nameservers of a family that the pod does not have are left out"},
	ruleFamiliesSorted:       {"R9", merge, "nameservers are sorted by the families of the pod's addresses"},
	ruleFamiliesKept:         {"R9", merge, "nameservers of a family that the pod does not have are kept: there is no other"},
	ruleFamiliesUnknown:      {"R9", merge, "the pod's addresses are unknown: nameservers of all families are kept"},
}

// String returns the identifier, such as "P3", or "" if r is not a rule.
func (r Rule) String() string { return r.info().id }

// Text describes the rule in one sentence; it returns "" if r is not a rule. The text may
// change in any release.
func (r Rule) Text() string { return r.info().text }

func (r Rule) info() ruleInfo {
	if int(r) >= len(rules) {
		return ruleInfo{}
	}
	return rules[r]
}

type ruleInfo struct{ id, stage, text string }

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
