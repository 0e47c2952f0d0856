// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// numericOptions are the options with a number, its range, and what C libraries do below it
// (resolv.h of glibc; src/network/resolvconf.c and res_msend.c of musl).
var numericOptions = []struct {
	name     string
	min, max int
	below    string
}{
	{"ndots", 0, 15, "glibc uses 15"},                       // RES_MAXNDOTS, in both
	{"timeout", 1, 30, "glibc uses 1, musl sends no query"}, // RES_MAXRETRANS; musl: 60
	{"attempts", 1, 5, "glibc sends no query"},              // RES_MAXRETRY; musl: 10, and 0 is a division by zero
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
	for i, o := range c.o.Pod.Config.Options {
		if ctx.Err() != nil {
			return
		}
		if code := optionCode(o); code != "" && !c.omitFinding(code) {
			message, hint := describeOption(o)
			c.warn(code, policy.EnforcedByDNSConfigurer, c.o.ofPod(fmt.Sprintf("spec.dnsConfig.options[%d]", i)), message, hint)
		}
	}
}

// optionCode returns the code of the problem of o, or "".
func optionCode(o policy.Option) policy.Code {
	if o.Name == "" || leavesLine(o.Name) || leavesLine(o.Value) {
		return "" // has another finding
	}
	key, _, colon := strings.Cut(o.Name, ":")
	for _, limits := range numericOptions {
		if limits.name != key {
			continue
		}
		if n, ok := parseNumber(o.Value); ok && !colon && limits.min <= n && n <= limits.max {
			return ""
		}
		return CodeOptionValue
	}
	switch {
	case !slices.Contains(flags, o.Name):
		return CodeUnknownOption
	case o.Value != "":
		return CodeOptionValue
	}
	return ""
}

// leavesLine reports whether s contains a newline or NUL. strings.ContainsAny took half of the time
// of checkOptions.
func leavesLine(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, 0) >= 0
}

// describeOption returns the problem of o, which has one, and what to do.
func describeOption(o policy.Option) (message, hint string) {
	key, inName, colon := strings.Cut(o.Name, ":")
	for _, limits := range numericOptions {
		switch {
		case limits.name != key:
		case colon:
			return fmt.Sprintf("the name of option %s contains its value: it is added to the node's %s instead of replacing it",
					excerpt.Quote(o.Name), key),
				fmt.Sprintf("write name: %s, value: %s", key, excerpt.Quote(inName))
		case o.Value == "":
			return fmt.Sprintf("option %s has no value: it removes the node's", key), "set a value"
		default:
			return describeNumber(o, limits.min, limits.max, limits.below)
		}
	}
	if slices.Contains(flags, o.Name) {
		return fmt.Sprintf("option %s accepts no value: %s enables it too", o.Name, excerpt.Quote(o.Value)), "drop the value, or the option"
	}
	return fmt.Sprintf("no C library supports option %s", excerpt.Quote(o.Name)), "check its spelling; resolv.conf(5) has the list"
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

func describeNumber(o policy.Option, minimum, maximum int, below string) (message, hint string) {
	hint = fmt.Sprintf("use %d to %d", minimum, maximum)
	switch n, ok := parseNumber(o.Value); {
	case !ok:
		return fmt.Sprintf("the value %s of option %s is not a number", excerpt.Quote(o.Value), o.Name), hint
	case n < minimum:
		return fmt.Sprintf("option %s is %d, %d is the minimum: %s", o.Name, n, minimum, below), hint
	default:
		return fmt.Sprintf("option %s is %d, %d is the limit: glibc uses %d", o.Name, n, maximum, maximum), hint
	}
}
