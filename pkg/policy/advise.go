// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Limits of C libraries. Neither the API server nor the kubelet enforces them: the resolver
// in the container ignores values beyond them.
const (
	// maxMuslLine is the length of the longest line that musl reads, without the newline.
	// It ignores a longer line. Measured: its buffer has 256 bytes.
	maxMuslLine = 254

	// maxOldGlibcSearches and maxOldGlibcSearchLine limit the search list of glibc before
	// 2.26 (its resolv.conf(5)).
	maxOldGlibcSearches   = 6
	maxOldGlibcSearchLine = 256
)

// advise adds findings about problems that the kubelet does not check. It changes nothing
// else.
func (e *Engine) advise(d *Decision, pod *Pod) {
	if p := fqdn.SubdomainProblems(pod.Name); p != nil {
		d.report(SeverityError, EnforcedByAPIServer, CodeInvalidName, "metadata.name",
			fmt.Sprintf("the pod's name %q is not a valid DNS subdomain: %s", pod.Name, strings.Join(p, ";")),
			"rename the pod: a node uses the name as the host name without checking it")
	}
	if pod.Windows {
		d.adviseWindows(pod)
	}
	d.adviseEmpty()
	e.adviseServers(d, pod)
	for _, s := range d.Searches {
		if p := fqdn.DomainProblem(s.Text); p != "" {
			d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeUnusableDomain, s.field(),
				fmt.Sprintf("search domain %q %s: every name tried with it fails", s.Text, p), "correct or remove it")
		}
	}
	d.adviseSearchLine()
	d.adviseCrashes()
}

// adviseEmpty warns of a configuration without nameservers. The kubelet refuses it with the
// policy None, but not if the annotation names None. With other policies, the host's file may
// have search domains only.
func (d *Decision) adviseEmpty() {
	message := "the pod's DNS configuration has no nameserver: glibc and musl query 127.0.0.1"
	switch {
	case len(d.Nameservers) > 0:
		return
	case len(d.Searches)+len(d.Options) == 0:
		message = "the pod's DNS configuration is empty: containerd 2 writes an empty file, " +
			"containerd 1 and CRI-O copy the host's resolv.conf"
	case !slices.Contains(d.Steps, ruleBaseNone):
		return
	}
	d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeEmptyConfig, "spec.dnsConfig", message,
		"set at least one nameserver in dnsConfig")
}

func (d *Decision) adviseWindows(pod *Pod) {
	if canonicalPolicy(pod.Policy) == ClusterFirstWithHostNet {
		d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeWindowsHostNet, "spec.dnsPolicy",
			"Windows nodes do not support dnsPolicy ClusterFirstWithHostNet", "use ClusterFirst")
	}
	if pod.Config != nil && len(pod.Config.Searches) > 0 && len(d.Searches) > 1 {
		d.report(SeverityInfo, EnforcedByDNSConfigurer, CodeWindowsSuffix, "spec.dnsConfig.searches",
			fmt.Sprintf("Windows uses the first search domain only: %s", d.Searches[0].Text), "use fully qualified names for the others")
	}
}

func (e *Engine) adviseServers(d *Decision, pod *Pod) {
	autopath := slices.Contains(d.Steps, ruleBaseAutopath)
	for _, s := range d.Nameservers {
		if s.Source.Origin == FromPod && autopath && !contains(e.servers, s.Text) {
			d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeForeignNameserver, s.field(),
				fmt.Sprintf("nameserver %s does not expand the autopath search domain: short names fail when it answers", s.Text),
				"remove it, or use ClusterFirst")
		}
		if pod.HostNetwork || s.Source.Origin != FromHost && s.Source.Origin != FromPod {
			continue
		}
		problem, hint := addressProblem(s.Text), "use an address that pods can reach; for systemd-resolved, "+
			"those in /run/systemd/resolve/resolv.conf"
		if s.Source.Origin == FromPod {
			problem, hint = podAddressProblem(s.Text)
		}
		if problem != "" {
			d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeLoopbackServer, s.field(),
				fmt.Sprintf("nameserver %s %s", s.Text, problem), hint)
		}
	}
}

// podAddressProblem returns why no server answers at an address of a pod's dnsConfig, or "", and
// what to do. The hint names no setting of the node, because the address is from the pod.
func podAddressProblem(server string) (problem, hint string) {
	addr, err := netip.ParseAddr(server)
	switch hint = "use an address that pods can reach"; {
	case err != nil:
		return "", ""
	case addr.IsLoopback():
		return "is the loopback interface of the pod, not of the node", hint + ", unless a container of the pod listens there"
	case addr.IsUnspecified():
		return addressProblem(server), hint + ", unless a container of the pod listens there"
	case addr.Is6() && addr.IsLinkLocalUnicast():
		return "is a link-local address, unreachable from the pod network", hint
	}
	return addressProblem(server), hint
}

// addressProblem returns why no server of the host answers a pod at an address, or "". IPv4 link-local
// addresses have no problem: node caches and the resolvers of clouds have them. Linux
// connects 0.0.0.0 and :: to the loopback interface.
func addressProblem(server string) string {
	addr, err := netip.ParseAddr(server)
	switch {
	case err != nil || addr.IsGlobalUnicast() || addr.Is4() && addr.IsLinkLocalUnicast():
		return ""
	case addr.IsLoopback() || addr.IsLinkLocalUnicast():
		return "is an address of the node, unreachable from the pod network"
	case addr.IsUnspecified():
		return "is connected to the loopback interface of the pod"
	default:
		return "is a multicast or broadcast address, which no server has"
	}
}

func (d *Decision) adviseSearchLine() {
	length := joinedLen(d.Searches)
	if line := len("search ") + length; length > 0 && line > maxMuslLine {
		d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeMuslSearchLine, "spec.dnsConfig.searches",
			fmt.Sprintf("musl ignores the search line of %d bytes, the limit is %d: no search domain works in Alpine images",
				line, maxMuslLine),
			"shorten the list, or use ClusterFirstWithAutopath")
	}
	if len(d.Searches) > maxOldGlibcSearches || length > maxOldGlibcSearchLine {
		d.report(SeverityInfo, EnforcedByDNSConfigurer, CodeOldGlibcSearch, "spec.dnsConfig.searches",
			"glibc before 2.26 uses 6 search domains of 256 bytes in total and ignores the rest",
			"no action for images with glibc 2.26 and later")
	}
}

// adviseCrashes warns of a resolv.conf that crashes every process of the pod at its
// first lookup. It takes a long search list or the option attempts:0.
func (d *Decision) adviseCrashes() {
	noAttempts := func(e Entry) bool { return strings.Contains(e.Text, "attempts:0") }
	if joinedLen(d.Searches) < maxMuslLine && !slices.ContainsFunc(d.Options, noAttempts) {
		return
	}
	text := d.Config().String()
	if resolvconf.Glibc(text).Crashes {
		d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeGlibcCrashes, "spec.dnsConfig.searches",
			"glibc without the fix of CVE-2026-8674 fails an assertion on this search list: every process that looks up a name is aborted",
			"shorten the long domain, or move it to the end")
	}
	if resolvconf.Musl(text).Crashes {
		d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeMuslCrashes, "spec.dnsConfig.options",
			"musl 1.2.3 divides by the number of attempts: every process that looks up a name is killed",
			"set attempts to at least 1")
	}
}
