// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

// Rule is one rule of the engine. Its String is a stable identifier, which
// docs/rules.md explains: H, P, M, L and N are the kubelet's rules, A the
// autopath policy's, D those where this engine leaves the kubelet.
type Rule uint8

// The rules, in the order in which the engine comes to them.
const (
	_ Rule = iota

	// Which base a pod gets.
	RuleBaseNone
	RuleBaseCluster
	RuleBaseHost
	RuleBaseAutopath
	RuleHostNetworkAsDefault
	RuleUnknownAsCluster
	RuleWithoutClusterDNS
	RuleWithoutAutopath
	RuleHostDisabled
	RuleHostRefused

	// What the base is made of, and what of the host it leaves out.
	RuleClusterServer
	RuleClusterDomain
	RuleClusterHostDomain
	RuleClusterNdots
	RuleHostEntry
	RuleNodeServer
	RuleNodeRootDomain
	RuleAutopathServer
	RuleAutopathDomain
	RuleNoneWithoutHost
	RuleClusterWithoutHost
	RuleAutopathWithoutHost

	// How dnsConfig is merged.
	RuleMerge
	RulePodEntry
	RulePodOption
	RuleDuplicate
	RuleOverriddenOption
	RuleUnsafeValue

	// How the host name comes about.
	RuleHostnameOfNode
	RuleHostnameOverridden
	RuleHostnameOfPod
	RuleHostnameField
	RuleHostnameCut
	RuleDomainOfSubdomain
	RuleHostnameIsFQDN
	RuleHostnameRefused

	// What the limits cut.
	RuleServerLimit
	RuleSearchLimit
	RuleDomainTooLong
	RuleSearchLineTooLong
)

// stage is one of the steps that Engine numbers.
type stage string

const (
	base     stage = "1 base"
	merge    stage = "2 merge"
	hostname stage = "3 hostname"
	limits   stage = "4 limits"
)

var rules = [...]rule{
	RuleBaseNone:             {"P1", base, "None takes nothing from the node"},
	RuleBaseCluster:          {"P1", base, "the policy takes the cluster's DNS"},
	RuleBaseHost:             {"P1", base, "Default takes the host's resolv.conf"},
	RuleBaseAutopath:         {"A1", base, "ClusterFirstWithAutopath takes the cluster's DNS and one search domain, which the server expands"},
	RuleHostNetworkAsDefault: {"P1", base, "ClusterFirst on the host's network counts as Default"},
	RuleUnknownAsCluster:     {"P2", base, "an unknown policy counts as ClusterFirst on every network"},
	RuleWithoutClusterDNS:    {"P4", base, "the node knows no cluster DNS: cluster policies count as Default"},
	RuleWithoutAutopath:      {"A2", base, "the autopath domain cannot be formed: counts as ClusterFirstWithHostNet"},
	RuleHostDisabled:         {"H1", base, "the node has no resolv.conf for pods"},
	RuleHostRefused:          {"H2", base, "the pod needs the host's resolv.conf, and the kubelet refuses the file"},

	RuleClusterServer:       {"P3", base, "the cluster's DNS servers replace the host's"},
	RuleClusterDomain:       {"P3", base, "the pod's namespace, svc and the cluster domain are searched first"},
	RuleClusterHostDomain:   {"P3", base, "the host's search domains follow the cluster's"},
	RuleClusterNdots:        {"P3", base, "cluster policies set ndots:5"},
	RuleHostEntry:           {"P5", base, "taken from the host as it is"},
	RuleNodeServer:          {"P5", base, "without a host file the node itself is asked"},
	RuleNodeRootDomain:      {"P5", base, "without a host file only the root is searched"},
	RuleAutopathServer:      {"A1", base, "one server that expands the search domain"},
	RuleAutopathDomain:      {"A1", base, "one search domain instead of the cluster's and the host's"},
	RuleNoneWithoutHost:     {"P1", base, "None takes nothing from the host"},
	RuleClusterWithoutHost:  {"P3", base, "cluster policies take only search domains from the host"},
	RuleAutopathWithoutHost: {"A1", base, "the server knows the host's search domains, the pod does not need them"},

	RuleMerge:            {"M1", merge, "dnsConfig follows the base, duplicates are dropped"},
	RulePodEntry:         {"M1", merge, "added by the pod"},
	RulePodOption:        {"M4", merge, "set by the pod"},
	RuleDuplicate:        {"M1", merge, "an earlier entry says the same"},
	RuleOverriddenOption: {"M4", merge, "the pod sets this option itself, the last time wins"},
	RuleUnsafeValue:      {"D3", merge, "the value would not stay one value of one line"},

	RuleHostnameOfNode:     {"N1", hostname, "on the host's network the host name is the node's"},
	RuleHostnameOverridden: {"N2", hostname, "hostnameOverride is the host name, without a domain"},
	RuleHostnameOfPod:      {"N3", hostname, "the host name is the pod's name"},
	RuleHostnameField:      {"N3", hostname, "the host name is spec.hostname"},
	RuleHostnameCut:        {"N4", hostname, "a host name of more than 63 bytes is cut"},
	RuleDomainOfSubdomain:  {"N5", hostname, "spec.subdomain gives the pod a domain"},
	RuleHostnameIsFQDN:     {"N6", hostname, "setHostnameAsFQDN makes the FQDN the host name"},
	RuleHostnameRefused:    {"N7", hostname, "the kubelet refuses the name"},

	RuleServerLimit:       {"L1", limits, "at most 3 nameservers"},
	RuleSearchLimit:       {"L2", limits, "at most 32 search domains"},
	RuleDomainTooLong:     {"L2", limits, "a search domain has at most 253 bytes"},
	RuleSearchLineTooLong: {"L2", limits, "the search line has at most 2048 bytes, it is cut from its end"},
}

// String returns the identifier, such as "P3"; "" for a number that is no rule.
func (r Rule) String() string { return r.known().id }

// Text says in one sentence what the rule does; "" for a number that is no rule.
func (r Rule) Text() string { return r.known().text }

func (r Rule) known() rule {
	if int(r) >= len(rules) {
		return rule{}
	}
	return rules[r]
}

type rule struct {
	id    string
	stage stage
	text  string
}
