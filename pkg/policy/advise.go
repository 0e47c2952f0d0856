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

// Limits of C libraries, which nobody enforces: the resolver in the container
// loses what is beyond them.
const (
	// maxMuslLine is the longest line, its newline not counted, that musl reads;
	// it skips a longer one whole (its reader has 256 bytes, measured).
	maxMuslLine = 254

	// maxOldGlibcSearches and maxOldGlibcSearchLine are what glibc before 2.26
	// keeps of a search list (resolv.conf(5) of that time).
	maxOldGlibcSearches   = 6
	maxOldGlibcSearchLine = 256
)

// advise adds findings about what the node lets pass and the container will not
// like. It changes nothing else.
func (e *Engine) advise(d *Decision, pod *Pod) {
	if p := fqdn.SubdomainProblems(pod.Name); p != nil {
		d.find(Finding{
			Code: CodeInvalidName, Severity: SeverityError, EnforcedBy: EnforcedByAPIServer,
			Message: fmt.Sprintf("the pod's name %q is not a valid DNS subdomain: %s", pod.Name, strings.Join(p, ";")),
			Field:   "metadata.name", Hint: "rename the pod: a node uses the name as the host name without checking it",
		})
	}
	if pod.Windows {
		d.adviseWindows(pod)
	}
	if len(d.Nameservers)+len(d.Searches)+len(d.Options) == 0 {
		d.advice(SeverityWarning, CodeEmptyConfig, "spec.dnsConfig",
			"the pod's DNS configuration is empty: containerd 2 writes an empty file, containerd 1 and CRI-O copy the host's resolv.conf",
			"set at least one nameserver in dnsConfig")
	}
	e.adviseServers(d, pod)
	for _, s := range d.Searches {
		if p := fqdn.DomainProblem(s.Text); p != "" {
			d.advice(SeverityWarning, CodeUnusableDomain, s.field(),
				fmt.Sprintf("search domain %q %s: every name tried with it fails", s.Text, p), "correct or remove it")
		}
	}
	d.adviseSearchLine()
	d.adviseCrashes()
}

func (d *Decision) adviseWindows(pod *Pod) {
	if known(pod.Policy) == ClusterFirstWithHostNet {
		d.advice(SeverityError, CodeWindowsHostNet, "spec.dnsPolicy",
			"Windows nodes do not support dnsPolicy ClusterFirstWithHostNet", "use ClusterFirst")
	}
	if len(d.Searches) > 1 {
		d.advice(SeverityInfo, CodeWindowsSuffix, "spec.dnsConfig.searches",
			fmt.Sprintf("Windows uses the first search domain only: %s", d.Searches[0].Text), "use fully qualified names for the others")
	}
}

func (e *Engine) adviseServers(d *Decision, pod *Pod) {
	autopath := slices.Contains(d.Steps, ruleBaseAutopath)
	for _, s := range d.Nameservers {
		if s.Source.Origin == FromPod && autopath && !contains(e.servers, s.Text) {
			d.advice(SeverityWarning, CodeForeignNameserver, s.field(),
				fmt.Sprintf("nameserver %s does not expand the autopath search domain: short names fail when it answers", s.Text),
				"remove it, or use ClusterFirst")
		}
		if !pod.HostNetwork && (s.Source.Origin == FromHost || s.Source.Origin == FromPod) && staysOnNode(s.Text) {
			d.advice(SeverityWarning, CodeLoopbackServer, s.field(),
				fmt.Sprintf("nameserver %s is an address of the node, unreachable from the pod network", s.Text),
				"use an address that pods can reach; for systemd-resolved, those in /run/systemd/resolve/resolv.conf")
		}
	}
}

// staysOnNode tells whether server is a loopback address or an IPv6 link-local
// one. IPv4 link-local addresses are meant: node caches and cloud resolvers have
// them.
func staysOnNode(server string) bool {
	addr, err := netip.ParseAddr(server)
	return err == nil && (addr.IsLoopback() || addr.Is6() && addr.IsLinkLocalUnicast())
}

func (d *Decision) adviseSearchLine() {
	length := joinedLen(d.Searches)
	if line := len("search ") + length; length > 0 && line > maxMuslLine {
		d.advice(SeverityWarning, CodeMuslSearchLine, "spec.dnsConfig.searches",
			fmt.Sprintf("musl ignores the search line of %d bytes, the limit is %d: no search domain works in Alpine images", line, maxMuslLine),
			"shorten the list, or use ClusterFirstWithAutopath")
	}
	if len(d.Searches) > maxOldGlibcSearches || length > maxOldGlibcSearchLine {
		d.advice(SeverityInfo, CodeOldGlibcSearch, "spec.dnsConfig.searches",
			"glibc before 2.26 uses 6 search domains of 256 bytes in total and ignores the rest",
			"no action for images with glibc 2.26 and later")
	}
}

// adviseCrashes warns of the files that end every process of a pod at its first
// lookup. Only a long search list and the option attempts can make one.
func (d *Decision) adviseCrashes() {
	none := func(e Entry) bool { return strings.Contains(e.Text, "attempts:0") }
	if joinedLen(d.Searches) < maxMuslLine && !slices.ContainsFunc(d.Options, none) {
		return
	}
	text := d.Config().String()
	if resolvconf.Glibc(text).Crashes {
		d.advice(SeverityWarning, CodeGlibcCrashes, "spec.dnsConfig.searches",
			"glibc 2.36 fails an assertion on a search list of these lengths: every process that looks up a name is aborted",
			"shorten the long domain, or move it to the end")
	}
	if resolvconf.Musl(text).Crashes {
		d.advice(SeverityWarning, CodeMuslCrashes, "spec.dnsConfig.options",
			"musl 1.2.3 divides by the number of attempts: every process that looks up a name is killed",
			"set attempts to at least 1")
	}
}

func (d *Decision) advice(s Severity, code Code, field, message, hint string) {
	d.find(Finding{Code: code, Severity: s, EnforcedBy: EnforcedByDNSConfigurer, Message: message, Field: field, Hint: hint})
}
