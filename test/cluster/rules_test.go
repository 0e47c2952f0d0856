// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// rule is a clause of a rule of the kubelet, by the identifiers of docs/checks.md, with a
// predicate for the cases whose result depends on it.
type rule struct {
	id, clause string
	hit        func(*cases.Case, *cases.Answer) bool
}

var rules = []rule{
	{"H1", "no file: --resolv-conf is empty", func(c *cases.Case, _ *cases.Answer) bool { return c.ResolvConfMode == cases.DisabledMode }},
	{"H1", "no file: it is missing", func(c *cases.Case, _ *cases.Answer) bool { return c.ResolvConfMode == cases.MissingMode }},
	{"H1", rareClause, func(c *cases.Case, _ *cases.Answer) bool { return c.HostSize > 0 }},
	{"H2", "a bad file fails pods that do not need it", func(c *cases.Case, a *cases.Answer) bool {
		return a.ErrorStage == cases.DNSStage && c.Base() != cases.HostBase
	}},
	{"H3", "white space beyond ASCII", func(c *cases.Case, _ *cases.Answer) bool {
		return strings.ContainsFunc(hostText(c), func(r rune) bool { return r > unicode.MaxASCII && unicode.IsSpace(r) })
	}},
	{"H3", "CRLF, or a lone CR", func(c *cases.Case, _ *cases.Answer) bool { return strings.Contains(hostText(c), "\r") }},
	{"H3", "a byte order mark", func(c *cases.Case, _ *cases.Answer) bool { return strings.Contains(hostText(c), "\ufeff") }},
	{"H4", "; is not a comment", hostField(0, func(s string) bool { return s[0] == ';' })},
	{"H4", "; is a domain", hostLine("search", func(s string) bool { return s == ";" })},
	{"H5", "# behind domains", hostLine("search", func(s string) bool { return s == "#" })},
	{"H5", "# behind options", hostLine("options", func(s string) bool { return s == "#" })},
	{"H6", "no keyword", hostField(0, func(s string) bool { return s != "nameserver" && s != "search" && s != "options" })},
	{"H7", "text behind an address", hostField(2, func(string) bool { return true })},
	{"H7", "no address", func(_ *cases.Case, a *cases.Answer) bool {
		return strings.HasSuffix(a.Error, "nameserver list is empty ")
	}},
	{"H8", "several search lines", hostLines("search")},
	{"H8", "a trailing dot", hostLine("search", func(s string) bool { return strings.HasSuffix(s, ".") && s != "." })},
	{"H8", "the domain .", hostLine("search", func(s string) bool { return s == "." })},
	{"H9", "several options lines", hostLines("options")},
	{"H9", "a key with several values",
		hostLine("options", func(s string) bool { return s == "ndots:1" }, func(s string) bool { return s == "ndots:2" })},

	{"P1", "None", hasPolicy(corev1.DNSNone)},
	{"P1", "Default", hasPolicy(corev1.DNSDefault)},
	{"P1", "ClusterFirst", hasPolicy(corev1.DNSClusterFirst)},
	{"P1", "ClusterFirst on the host's network", func(c *cases.Case, a *cases.Answer) bool {
		return c.Pod.Spec.HostNetwork && hasPolicy(corev1.DNSClusterFirst)(c, a)
	}},
	{"P1", "ClusterFirstWithHostNet", hasPolicy(corev1.DNSClusterFirstWithHostNet)},
	{"P2", "no policy", hasPolicy("")},
	{"P2", "an unknown policy on the host's network", func(c *cases.Case, a *cases.Answer) bool {
		return c.Pod.Spec.HostNetwork && hasPolicy("Bogus", "clusterFirst", "Default ", "NONE")(c, a)
	}},
	{"P3", "the cluster's DNS", func(c *cases.Case, a *cases.Answer) bool { return clusterBase(c, a) }},
	{"P3", "without a cluster domain", func(c *cases.Case, a *cases.Answer) bool { return clusterBase(c, a) && c.ClusterDomain == "" }},
	{"P3", "the host repeats a domain of the cluster", func(c *cases.Case, a *cases.Answer) bool {
		isCluster := func(s string) bool { return strings.TrimSuffix(s, ".") == c.ClusterDomain }
		return clusterBase(c, a) && c.ClusterDomain != "" && hostLine("search", isCluster)(c, a)
	}},
	{"P3", "clusterDNS is skipped or rewritten", func(c *cases.Case, a *cases.Answer) bool {
		rewritten := func(s string) bool { addr, ok := cases.ParseAddr(s); return !ok || addr.String() != s }
		return clusterBase(c, a) && slices.ContainsFunc(c.ClusterDNS, rewritten)
	}},
	{"P4", "no clusterDNS", hasEvent("MissingClusterDNS", "pod: ")},
	{"P5", "the host's file", func(c *cases.Case, a *cases.Answer) bool {
		return a.Error == "" && c.Base() == cases.HostBase && c.ResolvConfMode == cases.FileMode
	}},
	{"P5", "the node itself", func(c *cases.Case, a *cases.Answer) bool {
		return a.Error == "" && c.Base() == cases.HostBase && c.ResolvConfMode == cases.DisabledMode
	}},
	{"P5", "cluster policies without a file", func(c *cases.Case, a *cases.Answer) bool {
		return clusterBase(c, a) && c.ResolvConfMode == cases.DisabledMode
	}},

	{"M1", "a server twice", dnsConfig(func(p *corev1.PodDNSConfig) bool { return repeats(p.Nameservers) })},
	{"M1", "a domain twice", dnsConfig(func(p *corev1.PodDNSConfig) bool { return repeats(p.Searches) })},
	{"M2", "a domain is kept as it is written", dnsConfig(func(p *corev1.PodDNSConfig) bool {
		return slices.ContainsFunc(p.Searches, func(s string) bool { return strings.HasSuffix(s, ".") || strings.ToLower(s) != s })
	})},
	{"M3", "an empty dnsConfig",
		dnsConfig(func(p *corev1.PodDNSConfig) bool { return len(p.Nameservers)+len(p.Searches)+len(p.Options) == 0 })},
	{"M3", "no dnsConfig: duplicates stay", func(c *cases.Case, a *cases.Answer) bool {
		return c.Pod.Spec.DNSConfig == nil && (repeats(a.Servers) || repeats(a.Searches))
	}},
	{"M4", "an option twice", options(func(o, other corev1.PodDNSConfigOption) bool { return o.Name == other.Name })},
	{"M4", "a value is erased", options(func(o, _ corev1.PodDNSConfigOption) bool {
		return o.Name == "ndots" && (o.Value == nil || *o.Value == "")
	})},
	{"M4", "a name with a colon", options(func(o, _ corev1.PodDNSConfigOption) bool { return strings.Contains(o.Name, ":") })},

	{"L1", "three servers", func(_ *cases.Case, a *cases.Answer) bool { return len(a.Servers) == 3 && len(a.Events) == 0 }},
	{"L1", "more than three", hasEvent("DNSConfigForming", "Nameserver limits")},
	{"L2", "32 domains", func(_ *cases.Case, a *cases.Answer) bool { return len(a.Searches) == 32 && len(a.Events) == 0 }},
	{"L2", "more than 32", func(c *cases.Case, a *cases.Answer) bool { return len(a.Searches) == 32 && searchesCut(c, a) }},
	{"L2", "a domain of 253 bytes", func(_ *cases.Case, a *cases.Answer) bool {
		return slices.ContainsFunc(a.Searches, func(s string) bool { return len(s) == 253 })
	}},
	{"L2", "a domain of 254 bytes", func(c *cases.Case, a *cases.Answer) bool {
		isLong := func(s string) bool { return len(s) == 254 }
		return searchesCut(c, a) &&
			(hostLine("search", isLong)(c, a) ||
				dnsConfig(func(p *corev1.PodDNSConfig) bool { return slices.ContainsFunc(p.Searches, isLong) })(c, a))
	}},
	{"L2", "2048 bytes in all", func(_ *cases.Case, a *cases.Answer) bool { return len(strings.Join(a.Searches, " ")) == 2048 }},
	{"L2", "2049 and more", func(c *cases.Case, a *cases.Answer) bool {
		return searchesCut(c, a) && len(strings.Join(a.Searches, " ")) > 2048-254
	}},
	{"L3", "many options", func(_ *cases.Case, a *cases.Answer) bool { return len(a.Options) > 6 }},
	{"L3", "a server that is not an address", func(_ *cases.Case, a *cases.Answer) bool {
		return slices.ContainsFunc(a.Servers, func(s string) bool { return s == "dns.example.com" || s == "1.1.1.1,8.8.8.8" })
	}},
	{"L4", "the file is missing", nodeEvent("open ")},
	{"L4", "a server line is bare", nodeEvent("nameserver list is empty ")},
	{"L4", "more than 29 domains", nodeEvent("more than 29 domains")},
	{"L4", "more than 32 domains", nodeEvent("more than 32 domains")},
	{"L4", "a domain is too long", nodeEvent("more than allowed 253")},
	{"L4", "the line is too long", nodeEvent("more than allowed 2048")},
	{"L5", "an event on the node has no UID", func(_ *cases.Case, a *cases.Answer) bool {
		return slices.ContainsFunc(slices.Concat(a.Events, a.NodeEvents),
			func(e cases.Event) bool { return strings.HasPrefix(e.Object, "Node ") })
	}},

	{"N1", "the host's network", func(c *cases.Case, a *cases.Answer) bool { return c.Pod.Spec.HostNetwork && a.Error == "" }},
	{"N1", "a bad name fails only containers", func(_ *cases.Case, a *cases.Answer) bool { return a.ContainerError != "" }},
	{"N2", "hostnameOverride", named(func(p *corev1.Pod) bool { return p.Spec.HostnameOverride != nil && p.Spec.Subdomain != "" })},
	{"N2", "a bad hostnameOverride", hasError("pod HostnameOverride ")},
	{"N3", "a pod's name with dots", named(func(p *corev1.Pod) bool {
		return p.Spec.Hostname == "" && p.Spec.HostnameOverride == nil && strings.Contains(p.Name, ".")
	})},
	{"N3", "hostname", named(func(p *corev1.Pod) bool { return p.Spec.Hostname != "" && p.Spec.HostnameOverride == nil })},
	{"N3", "a bad hostname", hasError("pod Hostname ")},
	{"N4", "63 bytes", func(_ *cases.Case, a *cases.Answer) bool { return len(a.Hostname) == 63 }},
	{"N4", "cut to 63 bytes, and '-' and '.' behind", func(c *cases.Case, a *cases.Answer) bool {
		return a.Hostname != "" && len(a.Hostname) < 63 && len(c.Pod.Name) > 63 && strings.HasPrefix(c.Pod.Name, a.Hostname)
	}},
	{"N4", "nothing left", hasError("hostname for pod ")},
	{"N5", "subdomain", named(func(p *corev1.Pod) bool { return p.Spec.Subdomain != "" && p.Spec.HostnameOverride == nil })},
	{"N5", "without a cluster domain", func(_ *cases.Case, a *cases.Answer) bool { return strings.HasSuffix(a.Domain, ".svc.") }},
	{"N5", "a bad subdomain", hasError("pod Subdomain ")},
	{"N6", "an FQDN of 64 bytes", func(_ *cases.Case, a *cases.Answer) bool { return len(a.Hostname) == 64 }},
	{"N6", "an FQDN of 65 bytes", hasError(", 65 characters requested")},
	{"N7", "a label is too long", hasError("must be no more than 63 characters")},
	{"N7", "a label with dots", hasError("must not contain dots")},
	{"N7", "a bad label", hasError("a lowercase RFC 1123 label")},
	{"N7", "a bad subdomain", hasError("a lowercase RFC 1123 subdomain")},
	{"N8", "a hostnameOverride of 64 bytes is cut", named(func(p *corev1.Pod) bool {
		return p.Spec.HostnameOverride != nil && len(*p.Spec.HostnameOverride) == 64
	})},
	{"N9", "a static pod", func(c *cases.Case, a *cases.Answer) bool { return c.Manifest && a.PodName != "" }},
	{"N9", "without a policy", func(c *cases.Case, a *cases.Answer) bool {
		return c.Manifest && c.Pod.Spec.DNSPolicy == "" && a.Error == ""
	}},
	{"N9", "its name is cut", func(c *cases.Case, a *cases.Answer) bool {
		return c.Manifest && a.Hostname != "" && len(a.PodName) > 63
	}},
}

// rareClause is slow to cover: files of 10 MiB.
const rareClause = "the read limit"
