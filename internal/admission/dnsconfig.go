// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

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
	for i, o := range config.Options {
		if ctx.Err() != nil {
			return
		}
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
	for i, s := range servers {
		if ctx.Err() != nil {
			return
		}
		if p := addressProblem(s); p != "" && !c.omitFinding(CodeInvalidNameserver) {
			c.refuse(CodeInvalidNameserver, fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("nameserver %q %s", clip(s), p),
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
	for i, s := range searches {
		if ctx.Err() != nil {
			return
		}
		if p, hint := searchProblem(s); p != "" && !c.omitFinding(CodeInvalidSearch) {
			c.refuse(CodeInvalidSearch, fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("search domain %q %s", clip(s), p), hint)
		}
	}
}

// searchProblem returns why the API server refuses the search domain s and what to do, or
// "". The API server accepts "_" like a letter since 1.34 (RelaxedDNSSearchValidation), and
// ignores one final dot.
func searchProblem(s string) (problem, hint string) {
	domain := strings.TrimSuffix(s, ".")
	switch over := len(domain) - policy.MaxDomain; {
	case s == "." || fqdn.SubdomainProblems(strings.ReplaceAll(domain, "_", "u")) == nil:
		return "", ""
	case over > 0:
		return fmt.Sprintf("has %d characters, %d is the limit", len(domain), policy.MaxDomain), fmt.Sprintf("shorten it by %d", over)
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
	for i, s := range c.o.Pod.Config.Searches {
		if ctx.Err() != nil {
			return
		}
		if s == "." && !c.omitFinding(CodeRootSearch) {
			c.warn(CodeRootSearch, policy.EnforcedByDNSConfigurer, c.o.ofPod(fmt.Sprintf("spec.dnsConfig.searches[%d]", i)),
				`musl 1.2.3 stops at the search domain ".", musl 1.2.5 skips it: images of Alpine `+
					`3.17 and earlier do not resolve names that no earlier domain has`,
				"remove it: every resolver also tries the name without a search domain")
		}
	}
}
