// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// checkDNSConfig applies rules V2 and V3: what the API server refuses in a pod's dnsConfig
// (validation.go, validatePodDNSConfig; like it, a missing server ends the check). The
// limits are those of the nodes, but they apply to the pod's own entries, before those of
// the cluster are added.
func (c *check) checkDNSConfig(ctx context.Context) {
	config := c.o.Pod.Config
	field := c.o.ofPod("spec.dnsConfig")
	if c.o.Pod.Policy == policy.None && (config == nil || len(config.Nameservers) == 0) {
		at := field
		if config != nil {
			at += ".nameservers"
		}
		c.refuse(CodeNoNameservers, at, "dnsPolicy None without a nameserver", "set at least one nameserver in dnsConfig")
		return
	}
	if config == nil {
		return
	}
	c.checkNameservers(ctx, config.Nameservers, field+".nameservers")
	c.checkSearches(ctx, config.Searches, field+".searches")
	for i, o := range untilDone(ctx, config.Options) {
		if o.Name == "" && !c.omitFinding(CodeUnnamedOption) {
			c.refuse(CodeUnnamedOption, fmt.Sprintf("%s.options[%d]", field, i), "the option has no name", "name it, such as ndots")
		}
	}
}

func (c *check) checkNameservers(ctx context.Context, servers []string, field string) {
	if n := len(servers); n > policy.MaxNameservers {
		c.refuse(CodeTooManyServers, field,
			fmt.Sprintf("dnsConfig has %d nameservers, %d is the limit", n, policy.MaxNameservers),
			fmt.Sprintf("drop %d", n-policy.MaxNameservers))
	}
	for i, s := range untilDone(ctx, servers) {
		if p := addressProblem(s); p != "" && !c.omitFinding(CodeInvalidNameserver) {
			c.refuseValue(CodeInvalidNameserver, fmt.Sprintf("%s[%d]", field, i), "nameserver", s, p,
				"give an IPv4 or IPv6 address without port and zone")
		}
	}
}

// addressProblem returns why the API server does not accept s as an address in a new
// object, or "". Since 1.36 it refuses notations that programs read in two ways
// (StrictIPCIDRValidation).
func addressProblem(s string) string {
	switch a, err := netip.ParseAddr(s); {
	case err == nil && a.Zone() != "":
		return "has a zone"
	case err == nil && a.Is4In6():
		return "is an IPv4-mapped IPv6 address"
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "leading zero"):
		return "has leading zeros"
	default:
		return "is not an IP address"
	}
}

func (c *check) checkSearches(ctx context.Context, searches []string, field string) {
	if n := len(searches); n > policy.MaxSearches {
		c.refuse(CodeTooManySearches, field,
			fmt.Sprintf("dnsConfig has %d search domains, %d is the limit", n, policy.MaxSearches),
			fmt.Sprintf("drop %d", n-policy.MaxSearches))
	}
	if n := len(strings.Join(searches, " ")); n > policy.MaxSearchLine {
		c.refuse(CodeSearchListTooLong, field,
			fmt.Sprintf("the search domains of dnsConfig are %d characters together, %d is the limit", n, policy.MaxSearchLine),
			fmt.Sprintf("shorten them by %d", n-policy.MaxSearchLine))
	}
	for i, s := range untilDone(ctx, searches) {
		if p, hint := searchProblem(s); p != "" && !c.omitFinding(CodeInvalidSearch) {
			c.refuseValue(CodeInvalidSearch, fmt.Sprintf("%s[%d]", field, i), "search domain", s, p, hint)
		}
	}
}

// searchProblem returns why the API server refuses the search domain s and what to do, or
// "". The API server accepts "_" like a letter since 1.34 (RelaxedDNSSearchValidation), and
// ignores one final dot.
func searchProblem(s string) (problem, hint string) {
	domain := strings.TrimSuffix(s, ".")
	switch {
	case s == "." || fqdn.SubdomainProblems(strings.ReplaceAll(domain, "_", "u")) == nil:
		return "", ""
	case len(domain) > policy.MaxDomain:
		return lengthProblem(domain, policy.MaxDomain)
	default:
		return "is not a DNS subdomain", "use lower-case letters, digits, '-', '_' and '.', with a letter or digit at both ends of a label"
	}
}

// checkRootSearch warns of the search domain ".". musl tries name + "." + domain, which with
// the domain "." has an empty label (src/network/lookup_name.c). In musl 1.2.3 the lookup then
// ends, without later domains and the name itself; musl 1.2.5 continues. For glibc "." is the
// root.
func (c *check) checkRootSearch(ctx context.Context) {
	if c.o.Pod.Config == nil {
		return
	}
	for i, s := range untilDone(ctx, c.o.Pod.Config.Searches) {
		if s == "." && !c.omitFinding(CodeRootSearch) {
			c.warn(CodeRootSearch, policy.EnforcedByDNSConfigurer, c.o.ofPod(fmt.Sprintf("spec.dnsConfig.searches[%d]", i)),
				`musl 1.2.3 stops at the search domain ".", musl 1.2.5 skips it: images of Alpine `+
					`3.17 and earlier do not resolve names that no earlier domain has`,
				"remove it: every resolver also tries the name without a search domain")
		}
	}
}

// numericOption is an option with a number, its range, and what C libraries do below it
// (resolv.h of glibc; src/network/resolvconf.c and res_msend.c of musl).
type numericOption struct {
	name     string
	min, max int
	below    string
}

var numericOptions = []numericOption{
	{"ndots", 1, 15, "at 0 musl never uses the search domains, below 0 glibc uses 15"}, // RES_MAXNDOTS
	{"timeout", 1, 30, "glibc uses 1, musl sends no query"},                            // RES_MAXRETRANS; musl: 60
	{"attempts", 1, 5, "glibc sends no query"},                                         // RES_MAXRETRY; musl: 10, dividing by it
}

// flags are the options without a value of current and older releases of glibc
// (resolv.conf(5)); musl has none.
var flags = []string{
	"debug", "edns0", "inet6", "ip6-bytestring", "ip6-dotint", "no-aaaa", "no-check-names", "no-ip6-dotint", "no-reload",
	"no-tld-query", "no_tld_query", "rotate", "single-request", "single-request-reopen", "strict-error", "trust-ad", "use-vc",
}

// checkOptions warns of options that have no effect or an unexpected one. Neither the API
// server nor the node validates them.
func (c *check) checkOptions(ctx context.Context) {
	if c.o.Pod.Config == nil {
		return
	}
	for i, o := range untilDone(ctx, c.o.Pod.Config.Options) {
		if code, message, hint := c.optionProblem(o); code != "" {
			c.warn(code, policy.EnforcedByDNSConfigurer, c.o.ofPod(fmt.Sprintf("spec.dnsConfig.options[%d]", i)), message, hint)
		}
	}
}

// optionProblem returns the problem of o and what to do. code is "" if there is none, or its finding is left out.
func (c *check) optionProblem(o policy.Option) (code policy.Code, message, hint string) {
	if o.Name == "" || leavesLine(o.Name) || leavesLine(o.Value) {
		return "", "", "" // has another finding
	}
	key, inName, colon := strings.Cut(o.Name, ":")
	numeric := slices.IndexFunc(numericOptions, func(n numericOption) bool { return n.name == key })
	if numeric < 0 {
		switch isFlag := slices.Contains(flags, o.Name); {
		case isFlag && o.Value == "":
			return "", "", ""
		case isFlag && !c.omitFinding(CodeOptionValue):
			return CodeOptionValue, fmt.Sprintf("option %s accepts no value: %s enables it too", o.Name, excerpt.Quote(o.Value)),
				"drop the value, or the option"
		case !isFlag && !c.omitFinding(CodeUnknownOption):
			return CodeUnknownOption, fmt.Sprintf("no C library supports option %s", excerpt.Quote(o.Name)),
				"check its spelling; resolv.conf(5) has the list"
		}
		return "", "", ""
	}
	limits := numericOptions[numeric]
	n, ok := parseNumber(o.Value)
	if ok && !colon && limits.min <= n && n <= limits.max || c.omitFinding(CodeOptionValue) {
		return "", "", ""
	}
	hint = fmt.Sprintf("use %d to %d", limits.min, limits.max)
	switch {
	case colon:
		hint = fmt.Sprintf("write name: %s, value: %s", key, excerpt.Quote(inName))
		message = fmt.Sprintf("the name of option %s contains its value: it is added to the node's %s instead of replacing it",
			excerpt.Quote(o.Name), key)
	case o.Value == "":
		message, hint = fmt.Sprintf("option %s has no value: it removes the node's", key), "set a value"
	case !ok:
		message = fmt.Sprintf("the value %s of option %s is not a number", excerpt.Quote(o.Value), key)
	case n < limits.min:
		message = fmt.Sprintf("option %s is %d, %d is the minimum: %s", key, n, limits.min, limits.below)
	default:
		message = fmt.Sprintf("option %s is %d, %d is the limit: glibc uses %d", key, n, limits.max, limits.max)
	}
	return CodeOptionValue, message, hint
}

// leavesLine reports whether s contains a newline or NUL. strings.ContainsAny took half of the time
// of checkOptions.
func leavesLine(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, 0) >= 0
}

// parseNumber parses what the C libraries read as a number, with at most 18 digits, which also fit
// into the 64 bits of an integer in the admission policies.
func parseNumber(s string) (n int, ok bool) {
	digits := s
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if digits == "" || len(digits) > 18 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// addServersCut reports rule L1, the finding f of the engine, in terms of the pod's fields. If the
// pod has no part in it, the field is that of the node.
func (c *check) addServersCut(d *policy.Decision, f policy.Finding) {
	fromCluster := func(e policy.Entry) bool { return e.Source.Origin == policy.FromClusterDNS }
	if c.unknown.ClusterDNS && slices.ContainsFunc(d.Nameservers, fromCluster) {
		return
	}
	cut := dropped(d, policy.RuleServerLimit)
	field := c.o.ofPod("spec.dnsConfig.nameservers")
	hint := fmt.Sprintf("drop %d of them; those of the cluster or the node come first, unless dnsPolicy is None", len(cut))
	if aboutNode(f) {
		field, hint = f.Field, f.Hint
	}
	c.warn(policy.CodeServerLimit, policy.EnforcedByNode, field,
		fmt.Sprintf("the pod would have %d nameservers, %d is the limit: the node leaves out %s",
			len(d.Nameservers)+len(cut), policy.MaxNameservers, list(cut)), hint)
}

// addSearchesCut reports rule L2, as addServersCut does: its three limits, in the kubelet's order.
func (c *check) addSearchesCut(d *policy.Decision, f policy.Finding) {
	field := c.o.ofPod("spec.dnsConfig.searches")
	if aboutNode(f) {
		field = f.Field
	}
	excess, long, beyond := dropped(d, policy.RuleSearchLimit), dropped(d, policy.RuleDomainTooLong),
		dropped(d, policy.RuleSearchLineTooLong)
	if len(excess) > 0 {
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, field,
			fmt.Sprintf("the pod would have %d search domains, %d is the limit: the node leaves out %s",
				len(d.Searches)+len(long)+len(beyond)+len(excess), policy.MaxSearches, list(excess)),
			fmt.Sprintf("drop %d of them; those of the cluster and the node come first", len(excess)))
	}
	for _, e := range long {
		at := field
		if e.Source.Origin == policy.FromPod {
			at += fmt.Sprintf("[%d]", e.Source.Index)
		}
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, at,
			fmt.Sprintf("search domain %s has %d characters, %d is the limit: the node leaves it out",
				clip(e.Text), len(e.Text), policy.MaxDomain),
			"shorten it; a final dot counts")
	}
	if len(beyond) > 0 {
		length := len(d.Searches) + len(beyond) - 1 // the blanks
		for _, e := range slices.Concat(d.Searches, beyond) {
			length += len(e.Text)
		}
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, field,
			fmt.Sprintf("the search domains would be %d characters together, %d is the limit: the node leaves out %s",
				length, policy.MaxSearchLine, list(beyond)),
			"shorten or drop some; those of the cluster and the node come first")
	}
}

func dropped(d *policy.Decision, r policy.Rule) []policy.Entry {
	var entries []policy.Entry
	for _, e := range d.Dropped {
		if e.Rule == r {
			entries = append(entries, e)
		}
	}
	return entries
}

// list returns the first of entries and the number of the others: a warning of the API
// server is one line.
func list(entries []policy.Entry) string {
	s := clip(entries[0].Text)
	if more := len(entries) - 1; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// clip shortens a value for a message. Labels and FQDNs at their limits are not shortened.
func clip(s string) string { return cut(s, 70) }

// cut returns s, or its first bytes if it has more than limit. It does not split a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}
