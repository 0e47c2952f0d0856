// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// The vocabulary of the table of rules.

type hit = func(*cases.Case, *cases.Answer) bool

func hostText(c *cases.Case) string {
	if c.ResolvConfMode != cases.FileMode {
		return ""
	}
	return c.HostResolvConf
}

// hostField matches if field i of a line of the host file is is; 0 is the keyword.
func hostField(i int, is func(string) bool) hit {
	return func(c *cases.Case, _ *cases.Answer) bool {
		return slices.ContainsFunc(c.HostLines(), func(fields []string) bool { return len(fields) > i && is(fields[i]) })
	}
}

// hostLine matches if a line with the keyword has values that are all of are.
func hostLine(keyword string, are ...func(string) bool) hit {
	return func(c *cases.Case, _ *cases.Answer) bool {
		return slices.ContainsFunc(c.HostLines(), func(fields []string) bool {
			if fields[0] != keyword {
				return false
			}
			for _, is := range are {
				if !slices.ContainsFunc(fields[1:], is) {
					return false
				}
			}
			return true
		})
	}
}

// hostLines matches if several lines have the keyword.
func hostLines(keyword string) hit {
	return func(c *cases.Case, _ *cases.Answer) bool {
		n := 0
		for _, fields := range c.HostLines() {
			if fields[0] == keyword {
				n++
			}
		}
		return n > 1
	}
}

func hasPolicy(policies ...corev1.DNSPolicy) hit {
	return func(c *cases.Case, _ *cases.Answer) bool { return slices.Contains(policies, c.Pod.Spec.DNSPolicy) }
}

func clusterBase(c *cases.Case, a *cases.Answer) bool {
	return a.ErrorStage != cases.DNSStage && c.Base() == cases.ClusterBase
}

func dnsConfig(is func(*corev1.PodDNSConfig) bool) hit {
	return func(c *cases.Case, _ *cases.Answer) bool {
		return c.Pod.Spec.DNSConfig != nil && is(c.Pod.Spec.DNSConfig)
	}
}

// options matches if one of the pod's options is is, beside an earlier one or itself.
func options(is func(o, other corev1.PodDNSConfigOption) bool) hit {
	return dnsConfig(func(p *corev1.PodDNSConfig) bool {
		for i, o := range p.Options {
			if i == 0 && is(o, corev1.PodDNSConfigOption{}) {
				return true
			}
			for _, other := range p.Options[:i] {
				if is(o, other) {
					return true
				}
			}
		}
		return false
	})
}

func repeats(values []string) bool {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return true
		}
	}
	return false
}

func hasEvent(reason, message string) hit {
	return func(_ *cases.Case, a *cases.Answer) bool {
		return slices.ContainsFunc(a.Events,
			func(e cases.Event) bool { return e.Reason == reason && strings.HasPrefix(e.Message, message) })
	}
}

func searchesCut(c *cases.Case, a *cases.Answer) bool {
	return hasEvent("DNSConfigForming", "Search Line limits")(c, a)
}

func nodeEvent(text string) hit {
	return func(_ *cases.Case, a *cases.Answer) bool {
		return slices.ContainsFunc(a.NodeEvents, func(e cases.Event) bool { return strings.Contains(e.Message, text) })
	}
}

func hasError(text string) hit {
	return func(_ *cases.Case, a *cases.Answer) bool { return strings.Contains(a.Error, text) }
}

// named matches if the pod is is and gets a hostname.
func named(is func(*corev1.Pod) bool) hit {
	return func(c *cases.Case, a *cases.Answer) bool { return a.Hostname != "" && is(c.Pod) }
}
