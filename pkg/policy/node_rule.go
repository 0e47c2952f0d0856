// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// NodeRule changes the DNS configuration of the pods that it matches: those in Namespaces, with
// PodLabels, with one of Policies. An empty selector matches every pod.
//
// For each of the other fields, the first rule that matches and sets it applies. So a rule for
// a few pods stands before a rule for all, and can also switch it off. The limits apply after
// the rules. docs/nodes.md describes each field; R1 to R9 are its identifiers.
type NodeRule struct {
	Namespaces []string          // names or patterns, in which "*" matches any text
	PodLabels  map[string]string // labels with their values; the pod has all of them
	Policies   []Policy          // spec.dnsPolicy, or the policy of the annotation that overrides it

	// Options are resolver options such as "ndots:2". They override the options of the node, and the
	// pod's options override them. nil: not set. R1.
	Options []string

	// HostOptions is whether cluster policies inherit the options of the host's file. They
	// override nothing. nil: not set. R2.
	HostOptions *bool

	// HostSearches are the search domains of the host's file that pods inherit: names or
	// patterns, in which "*" matches any text. Empty: none. nil: not set. R3.
	HostSearches []string

	// DropUnreachable is whether nameservers of the host's file that are addresses of the node
	// itself are dropped: 127.0.0.0/8, ::1 and fe80::/10. They are kept for pods on the host's
	// network, and if no other nameserver would remain. nil: not set. R4.
	DropUnreachable *bool

	// DropDuplicates is whether nameservers with the address of an earlier one are dropped.
	// nil: not set. R5.
	DropDuplicates *bool

	// PodFirst is whether the nameservers and search domains of dnsConfig precede the
	// node's. nil: not set. R6.
	PodFirst *bool

	// SubdomainSearch is the place of the search domain SUBDOMAIN.NAMESPACE.svc.DOMAIN among
	// the domains of the node, for pods with a subdomain and a cluster policy. "": not set. R7.
	SubdomainSearch Placement

	// HostNetworkAsCluster is whether ClusterFirst on the host's network is treated as
	// ClusterFirstWithHostNet. nil: not set. R8.
	HostNetworkAsCluster *bool

	// ServerFamilies selects nameservers by the IP families of the pod's addresses. It has no
	// effect on a pod whose addresses are unknown. "": not set. R9.
	ServerFamilies FamilyChoice
}

// Placement is where an entry is added to a list.
type Placement string

// The placements.
const (
	PlaceFirst Placement = "First"
	PlaceLast  Placement = "Last"
	PlaceOff   Placement = "Off" // nowhere
)

// FamilyChoice is how nameservers are selected by the families of a pod's addresses.
type FamilyChoice string

// The choices.
const (
	// FamiliesPreferred sorts the nameservers of the node, and separately the pod's:
	// first the family of the pod's first address, then the pod's other family.
	FamiliesPreferred FamilyChoice = "Preferred"

	// FamiliesOnly also drops nameservers of the node whose family the pod does not have,
	// unless no nameserver would remain.
	FamiliesOnly FamilyChoice = "Only"

	FamiliesAny FamilyChoice = "Any" // no selection
)

// The limits of node rules. They bound the work for a pod, which is proportional to both.
const (
	MaxNodeRules     = 64
	MaxNodeRuleItems = 64 // of one list in a rule
)

// AppliedRule is a rule of the engine that a NodeRule has applied to a pod.
type AppliedRule struct {
	Rule  Rule
	Index int // of the NodeRule in Node.Rules
}

// change is a field of a NodeRule that changes the result.
type change int

const (
	changeOptions change = iota
	changeHostOptions
	changeHostSearches
	changeUnreachable
	changeDuplicates
	changeOrder
	changeSubdomain
	changeHostNetwork
	changeFamilies

	changeCount
)

// nodeRule is a NodeRule, prepared for matching.
type nodeRule struct {
	NodeRule
	index      int32
	namespaces []*regexp.Regexp
	labels     [][2]string
	searches   []*regexp.Regexp
	settings   [changeCount]*bool // nil: not set; whether the result changes
}

// setting returns whether the result changes, or nil if a rule does not set the field.
func setting(set, on bool) *bool {
	if !set {
		return nil
	}
	return &on
}

// newNodeRule prepares r, which is valid.
func newNodeRule(index int, r NodeRule) nodeRule {
	// The caller may change what its fields refer to.
	r.Policies, r.Options = slices.Clone(r.Policies), slices.Clone(r.Options)
	n := nodeRule{
		NodeRule: r, index: int32(index),
		namespaces: parseGlobs(r.Namespaces), searches: parseGlobs(r.HostSearches),
		settings: [changeCount]*bool{
			changeOptions:      setting(r.Options != nil, len(r.Options) > 0),
			changeHostOptions:  r.HostOptions,
			changeHostSearches: setting(r.HostSearches != nil, true),
			changeUnreachable:  r.DropUnreachable,
			changeDuplicates:   r.DropDuplicates,
			changeOrder:        r.PodFirst,
			changeSubdomain:    setting(r.SubdomainSearch != "", r.SubdomainSearch != PlaceOff),
			changeHostNetwork:  r.HostNetworkAsCluster,
			changeFamilies:     setting(r.ServerFamilies != "", r.ServerFamilies != FamiliesAny),
		},
	}
	for i, s := range n.settings {
		if s != nil {
			n.settings[i] = new(*s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.PodLabels)) {
		n.labels = append(n.labels, [2]string{key, r.PodLabels[key]})
	}
	for i, p := range r.Policies {
		n.Policies[i] = canonicalPolicy(p)
	}
	return n
}

func parseGlobs(patterns []string) (globs []*regexp.Regexp) {
	for _, p := range patterns {
		g, _ := parseGlob(p)
		globs = append(globs, g)
	}
	return globs
}

// matches reports whether r applies to pod, whose effective policy is policy.
func (r *nodeRule) matches(pod *Pod, policy Policy) bool {
	if len(r.Policies) > 0 && !slices.Contains(r.Policies, policy) {
		return false
	}
	if len(r.namespaces) > 0 && !matchAny(r.namespaces, pod.Namespace) {
		return false
	}
	for _, l := range r.labels {
		if value, found := pod.Labels[l[0]]; !found || value != l[1] {
			return false
		}
	}
	return true
}

// changes holds for each change the rule that makes it; nil: none does.
type changes [changeCount]*nodeRule

// changes returns the changes for pod, whose effective policy is policy.
func (e *Engine) changes(pod *Pod, policy Policy) (c changes) {
	var decided [changeCount]bool
	for i := range e.rules {
		r := &e.rules[i]
		if !r.matches(pod, policy) {
			continue
		}
		for f, s := range r.settings {
			if s != nil && !decided[f] {
				if decided[f] = true; *s {
					c[f] = r
				}
			}
		}
	}
	return c
}

// CheckNodeRules returns the problems of rules. The Field of a problem begins with the index of
// its rule, such as "[1].options[0]".
func CheckNodeRules(rules []NodeRule) (problems []*NodeError) {
	if len(rules) > MaxNodeRules {
		problems = append(problems, &NodeError{"", fmt.Sprintf("has %d rules, %d is the limit", len(rules), MaxNodeRules)})
		rules = rules[:MaxNodeRules]
	}
	for i := range rules {
		c := nodeRuleCheck{prefix: "[" + strconv.Itoa(i) + "]"}
		c.checkSelectors(&rules[i])
		c.checkChanges(&rules[i])
		problems = append(problems, c.problems...)
	}
	return problems
}

// nodeRuleCheck collects the problems of one rule.
type nodeRuleCheck struct {
	prefix   string
	problems []*NodeError
}

func (c *nodeRuleCheck) add(field, format string, args ...any) {
	c.problems = append(c.problems, &NodeError{c.prefix + field, fmt.Sprintf(format, args...)})
}

func (c *nodeRuleCheck) checkSelectors(r *NodeRule) {
	checkItems(c, ".namespaces", r.Namespaces, globProblem)
	checkItems(c, ".policies", r.Policies, func(p Policy) string {
		if canonicalPolicy(p) == "" {
			return "want Default, ClusterFirst, ClusterFirstWithHostNet, None or ClusterFirstWithAutopath"
		}
		return ""
	})
	if len(r.PodLabels) > MaxNodeRuleItems {
		c.add(".podLabels", "has %d labels, %d is the limit", len(r.PodLabels), MaxNodeRuleItems)
	}
	for _, key := range slices.Sorted(maps.Keys(r.PodLabels)) {
		if !isLabelKey(key) {
			c.add(".podLabels", "%q: is not the name of a label", key)
		}
		if value := r.PodLabels[key]; value != "" && !isQualified(value) {
			c.add(".podLabels["+key+"]", "%q: cannot be the value of a label, which is compared as a whole", value)
		}
	}
}

func (c *nodeRuleCheck) checkChanges(r *NodeRule) {
	checkItems(c, ".hostSearches", r.HostSearches, globProblem)
	seen := map[string]bool{}
	checkItems(c, ".options", r.Options, func(o string) string {
		name, _, _ := strings.Cut(o, ":")
		if seen[name] {
			return "sets " + name + " again"
		}
		seen[name] = true
		return optionProblem(o)
	})
	switch r.SubdomainSearch {
	case "", PlaceFirst, PlaceLast, PlaceOff:
	default:
		c.add(".subdomainSearch", "%q: want %s, %s or %s", r.SubdomainSearch, PlaceFirst, PlaceLast, PlaceOff)
	}
	switch r.ServerFamilies {
	case "", FamiliesPreferred, FamiliesOnly, FamiliesAny:
	default:
		c.add(".serverFamilies", "%q: want %s, %s or %s", r.ServerFamilies, FamiliesPreferred, FamiliesOnly, FamiliesAny)
	}
}

// checkItems checks the length of a list and each item.
func checkItems[T ~string](c *nodeRuleCheck, field string, list []T, problem func(T) string) {
	if len(list) > MaxNodeRuleItems {
		c.add(field, "has %d items, %d is the limit", len(list), MaxNodeRuleItems)
		return
	}
	for i, item := range list {
		if p := problem(item); p != "" {
			c.add(field+"["+strconv.Itoa(i)+"]", "%q: %s", item, p)
		}
	}
}

func globProblem(s string) string {
	_, problem := parseGlob(s)
	return problem
}

// isLabelKey reports whether key is the name of a label, with an optional domain before it
// (k8s.io/apimachinery/pkg/util/validation.IsQualifiedName).
func isLabelKey(key string) bool {
	domain, name, found := strings.Cut(key, "/")
	if !found {
		return isQualified(key)
	}
	return fqdn.SubdomainProblems(domain) == nil && isQualified(name)
}

// isQualified reports whether s has the form of a label's name and of its value.
func isQualified(s string) bool {
	isOther := func(r rune) bool { return !isGlobRune(r) || r == '*' }
	isAlphanumeric := func(r rune) bool { return isGlobRune(r) && !strings.ContainsRune("-_.*", r) }
	return s != "" && len(s) <= fqdn.MaxHostname && !strings.ContainsFunc(s, isOther) &&
		isAlphanumeric(rune(s[0])) && isAlphanumeric(rune(s[len(s)-1]))
}

// The options of current C libraries (resolv.conf(5); resolv.h for the ranges). musl has those
// with a number only, and crashes with attempts:0.
var (
	optionFlags = [...]string{"debug", "edns0", "no-aaaa", "no-check-names", "no-reload", "no-tld-query",
		"rotate", "single-request", "single-request-reopen", "trust-ad", "use-vc"}
	optionRanges = [...]struct {
		name     string
		min, max int
	}{{"ndots", 0, 15}, {"timeout", 1, 30}, {"attempts", 1, 5}}
)

// optionProblem returns why text is not an option of a C library, or "".
func optionProblem(text string) string {
	if slices.Contains(optionFlags[:], text) {
		return ""
	}
	name, value, _ := strings.Cut(text, ":")
	for _, r := range optionRanges {
		if r.name != name {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < r.min || n > r.max || value != strconv.Itoa(n) {
			return fmt.Sprintf("want %s:N with N from %d to %d", name, r.min, r.max)
		}
		return ""
	}
	if slices.Contains(optionFlags[:], name) {
		return "option " + name + " has no value"
	}
	return "is not an option of resolv.conf(5)"
}
