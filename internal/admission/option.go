// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// numbers are the options with a number, and what C libraries do at the ends of its
// range (resolv.h of glibc; src/network/resolvconf.c and res_msend.c of musl).
var numbers = []struct {
	name        string
	least, most int
	below       string // what less means
}{
	{"ndots", 0, 15, "glibc uses 15"},                       // RES_MAXNDOTS, in both
	{"timeout", 1, 30, "glibc uses 1, musl sends no query"}, // RES_MAXRETRANS; musl: 60
	{"attempts", 1, 5, "glibc sends no query"},              // RES_MAXRETRY; musl: 10, and dies of 0
}

// flags are the options without a value that glibc has or had (resolv.conf(5)); musl
// has none.
var flags = []string{
	"debug", "edns0", "inet6", "ip6-bytestring", "ip6-dotint", "no-aaaa", "no-check-names", "no-ip6-dotint", "no-reload",
	"no-tld-query", "no_tld_query", "rotate", "single-request", "single-request-reopen", "strict-error", "trust-ad", "use-vc",
}

// options warns of options that do not do what they seem to say. Neither the API
// server nor the node looks at them.
func (c *check) options() {
	if c.o.Pod.Config == nil {
		return
	}
	for i, o := range c.o.Pod.Config.Options {
		field := c.o.ofPod(fmt.Sprintf("spec.dnsConfig.options[%d]", i))
		if message, hint := optionProblem(o); message != "" {
			code := CodeOptionValue
			if hint == "" {
				code, hint = CodeUnknownOption, "check its spelling; resolv.conf(5) has the list"
			}
			c.warn(code, policy.EnforcedByDNSConfigurer, field, message, hint)
		}
	}
}

// optionProblem says what is wrong with o and what to do; "" if nothing is. An option
// that nobody knows has no hint.
func optionProblem(o policy.Option) (message, hint string) {
	if o.Name == "" || strings.ContainsAny(o.Name+o.Value, "\n\x00") {
		return "", "" // has a finding of its own
	}
	key, inName, colon := strings.Cut(o.Name, ":")
	for _, n := range numbers {
		switch {
		case n.name != key:
		case colon:
			return fmt.Sprintf("the name of option %q contains its value: it is added to the node's %s instead of replacing it", clip(o.Name), key),
				fmt.Sprintf("write name: %s, value: %q", key, clip(inName))
		case o.Value == "":
			return fmt.Sprintf("option %s has no value: it removes the node's", key), "set a value"
		default:
			return numberProblem(o, n.least, n.most, n.below)
		}
	}
	switch {
	case !slices.Contains(flags, o.Name):
		return fmt.Sprintf("no C library supports option %q", clip(o.Name)), ""
	case o.Value != "":
		return fmt.Sprintf("option %s accepts no value: %q enables it too", o.Name, clip(o.Value)), "drop the value, or the option"
	}
	return "", ""
}

func numberProblem(o policy.Option, least, most int, below string) (message, hint string) {
	hint = fmt.Sprintf("use %d to %d", least, most)
	switch n, err := strconv.Atoi(o.Value); {
	case err != nil:
		return fmt.Sprintf("the value %q of option %s is not a number", clip(o.Value), o.Name), hint
	case n < least:
		return fmt.Sprintf("option %s is %d, %d is the minimum: %s", o.Name, n, least, below), hint
	case n > most:
		return fmt.Sprintf("option %s is %d, %d is the limit: glibc uses %d", o.Name, n, most, most), hint
	}
	return "", ""
}
