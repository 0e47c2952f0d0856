// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// base fills d with what pod's policy takes from the node. It reports false when
// the pod cannot start for want of the host's file.
func (e *Engine) base(d *Decision, pod *Pod, host *resolvconf.File) bool {
	rule := e.chooseBase(d, pod)
	d.step(rule)
	if rule == ruleBaseHost && host.Err != nil {
		d.step(ruleHostRefused)
		d.refuse(CodeHostFileRefused, FieldResolvConf, host.Err.Error(),
			"correct "+d.hostFile+" on the node, or create it; pods with another policy start without it")
		d.turnAway(pod, host)
		return false
	}
	if slices.Contains(d.Steps, ruleWithoutClusterDNS) {
		d.missingClusterDNS(pod)
	}
	if host.Err != nil {
		d.find(Finding{
			Code: CodeHostFileNotNeeded, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
			Message: "the kubelet starts no pod with this host file: " + host.Err.Error(),
			Field:   FieldResolvConf,
			Hint:    "correct " + d.hostFile + " on the node, or create it; this pod does not need what is missing",
		})
	}
	switch rule {
	case ruleBaseNone:
		d.reserve(pod.Config, 0, 0, 0, entryCount(host))
		d.dropFile(host, ruleNoneWithoutHost)
	case ruleBaseHost:
		e.hostBase(d, pod.Config, host)
	case ruleBaseCluster:
		e.clusterBase(d, pod, host)
	case ruleBaseAutopath:
		e.autopathBase(d, pod, host)
	}
	return true
}

// chooseBase picks one of the four ruleBase rules, by rules P1, P2, P4, A1 and A2.
func (e *Engine) chooseBase(d *Decision, pod *Pod) Rule {
	policy := d.effective(pod)
	switch {
	case policy == None:
		return ruleBaseNone
	case policy == Default:
		return ruleBaseHost
	case policy == ClusterFirst && pod.HostNetwork:
		d.step(ruleHostNetworkAsDefault)
		d.find(Finding{
			Code: CodeHostNetworkDefault, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
			Message: "dnsPolicy ClusterFirst on the host's network gives the host's DNS: the pod resolves no Services",
			Field:   "spec.dnsPolicy",
			Hint:    "use ClusterFirstWithHostNet, or Default for the host's DNS",
		})
		return ruleBaseHost
	case policy == "":
		d.unknownPolicy(pod.Policy)
	}
	if policy == ClusterFirstWithAutopath && e.canAutopath(d, pod) {
		return ruleBaseAutopath
	}
	if len(e.servers) == 0 {
		d.step(ruleWithoutClusterDNS)
		return ruleBaseHost
	}
	return ruleBaseCluster
}

// hostBase is rule P5.
func (e *Engine) hostBase(d *Decision, config *DNSConfig, host *resolvconf.File) {
	if e.node.ResolvConf != "" {
		d.reserve(config, len(host.Nameservers), len(host.Searches), len(host.Options), 0)
		d.takeHost(host.Nameservers, KindNameserver, ruleHostEntry)
		d.takeHost(host.Searches, KindSearch, ruleHostEntry)
		d.takeHost(host.Options, KindOption, ruleHostEntry)
		return
	}
	for i, ip := range e.node.IPs {
		server := "127.0.0.1"
		if ip.Unmap().Is6() {
			server = "::1"
		}
		d.take(Entry{server, KindNameserver, ruleNodeServer, Source{FromNodeIP, int32(i)}})
	}
	if len(e.node.IPs) == 0 {
		d.take(Entry{"127.0.0.1", KindNameserver, ruleNodeServer, Source{Origin: FromRule}})
	}
	d.take(Entry{".", KindSearch, ruleNodeRootDomain, Source{Origin: FromRule}})
}

// clusterBase is rule P3. Without a cluster domain the host's search domains
// stay as they are; with one, each domain is kept once.
func (e *Engine) clusterBase(d *Decision, pod *Pod, host *resolvconf.File) {
	d.reserve(pod.Config, len(e.servers), 3+len(host.Searches), 1, len(host.Nameservers)+len(host.Options))
	d.Nameservers = append(d.Nameservers, e.servers...)
	domain := Source{Origin: FromClusterDomain}
	if e.node.ClusterDomain == "" {
		d.takeHost(host.Searches, KindSearch, ruleClusterHostDomain)
	} else {
		d.take(Entry{pod.Namespace + "." + e.svcDomain, KindSearch, ruleClusterDomain, domain})
		d.take(Entry{e.svcDomain, KindSearch, ruleClusterDomain, domain})
		d.take(Entry{e.node.ClusterDomain, KindSearch, ruleClusterDomain, domain})
		d.takeHost(host.Searches, KindSearch, ruleClusterHostDomain)
		d.dedupe(KindSearch, MaxSearches)
	}
	d.take(Entry{"ndots:5", KindOption, ruleClusterNdots, Source{Origin: FromRule}})
	d.dropHost(host.Nameservers, KindNameserver, ruleClusterWithoutHost)
	d.dropHost(host.Options, KindOption, ruleClusterWithoutHost)
}

// autopathBase is rule A1: one server, one search domain.
func (e *Engine) autopathBase(d *Decision, pod *Pod, host *resolvconf.File) {
	d.reserve(pod.Config, 2, 1, 1, entryCount(host))
	servers := e.servers
	if a := e.node.Autopath.NodeCache; a.IsValid() {
		d.take(Entry{a.Unmap().String(), KindNameserver, ruleAutopathServer, Source{Origin: FromNodeCache}})
	} else {
		d.take(withRule(servers[0], ruleAutopathServer))
		servers = servers[1:]
	}
	if e.node.Autopath.ClusterDNSFallback && len(servers) > 0 {
		d.take(withRule(servers[0], ruleAutopathServer))
	}
	d.take(Entry{e.autopathDomain(pod), KindSearch, ruleAutopathDomain, Source{Origin: FromClusterDomain}})
	d.take(Entry{"ndots:5", KindOption, ruleClusterNdots, Source{Origin: FromRule}})
	d.dropFile(host, ruleAutopathWithoutHost)
}

func (e *Engine) autopathDomain(pod *Pod) string {
	return "search." + pod.Namespace + e.suffix
}

// canAutopath is rule A2: without a server, a cluster domain or room for the
// suffix the pod is served as with ClusterFirstWithHostNet.
func (e *Engine) canAutopath(d *Decision, pod *Pod) bool {
	var why string
	switch {
	case !e.node.Autopath.NodeCache.IsValid() && len(e.servers) == 0:
		why = "the node has neither a node cache nor a cluster DNS server"
	case e.node.ClusterDomain == "":
		why = "the node has no cluster domain"
	default:
		domain := e.autopathDomain(pod)
		if p := fqdn.DomainProblem(domain); p != "" {
			why = "its search domain " + domain + " " + p
		} else if unsafe(KindSearch, domain) {
			why = fmt.Sprintf("its search domain %q is not one word", domain)
		}
	}
	if why == "" {
		return true
	}
	d.step(ruleWithoutAutopath)
	d.find(Finding{
		Code: CodeAutopathUnavailable, Severity: SeverityWarning, EnforcedBy: EnforcedByDNSConfigurer,
		Message: "ClusterFirstWithAutopath is treated as ClusterFirstWithHostNet: " + why,
		Field:   "spec.dnsPolicy",
		Hint:    "configure a cluster DNS and a cluster domain for the node, or use ClusterFirst",
	})
	return false
}

func (d *Decision) unknownPolicy(p Policy) {
	d.step(ruleUnknownAsCluster)
	hint := "use Default, ClusterFirst, ClusterFirstWithHostNet, None or ClusterFirstWithAutopath"
	if p == "Custom" { // the first draft of the KEP, still found in old manifests
		hint = "Custom became None: use dnsPolicy: None with dnsConfig"
	}
	d.find(Finding{
		Code: CodeUnknownPolicy, Severity: SeverityError, EnforcedBy: EnforcedByAPIServer,
		Message: fmt.Sprintf("dnsPolicy %q is unknown: the API server refuses it, a kubelet treats it as ClusterFirst on every network", string(p)),
		Field:   "spec.dnsPolicy", Hint: hint,
	})
}

// missingClusterDNS is the events of rule P4, which come only when the host file can
// be used (H2). The kubelet says ClusterFirst whatever the policy.
func (d *Decision) missingClusterDNS(pod *Pod) {
	const message = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
	const hint = "set clusterDNS in the KubeletConfiguration"
	d.find(Finding{
		Code: CodeNodeMissingDNS, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
		Reason: reasonMissing, Message: message, Field: FieldClusterDNS, Hint: hint,
	})
	d.find(Finding{
		Code: CodeMissingClusterDNS, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
		Reason:  reasonMissing,
		Message: fmt.Sprintf("pod: %q. %s", fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), message),
		Field:   "spec.dnsPolicy", Hint: hint,
	})
}

// turnAway drops all that a pod which does not start was offered.
func (d *Decision) turnAway(pod *Pod, host *resolvconf.File) {
	d.dropFile(host, ruleHostRefused)
	for e := range pod.Config.entries {
		d.drop(e, ruleHostRefused)
	}
}

// reserve makes room, in one piece, for so many entries and those of c. A list that
// outgrows its part grows by itself, as does one of a hostile file.
func (d *Decision) reserve(c *DNSConfig, nameservers, searches, options, dropped int) {
	if c != nil {
		nameservers += len(c.Nameservers)
		searches += len(c.Searches)
		options += len(c.Options)
		dropped += len(c.Options) // each may override one
	}
	const most = 64
	sizes := [...]int{min(nameservers, most), min(searches, most), min(options, most), min(dropped, most)}
	room := make([]Entry, sizes[0]+sizes[1]+sizes[2]+sizes[3])
	for i, list := range [...]*[]Entry{&d.Nameservers, &d.Searches, &d.Options, &d.Dropped} {
		*list = room[:0:sizes[i]]
		room = room[sizes[i]:]
	}
}

// take appends e to its list, unless it would break the file.
func (d *Decision) take(e Entry) {
	if unsafe(e.Kind, e.Text) {
		d.dropUnsafe(e)
		return
	}
	list := d.list(e.Kind)
	*list = append(*list, e)
}

func (d *Decision) takeHost(entries []resolvconf.Entry, k Kind, r Rule) {
	for _, e := range entries {
		d.take(Entry{e.Text, k, r, Source{FromHost, int32(e.Line)}})
	}
}

func (d *Decision) dropFile(host *resolvconf.File, r Rule) {
	d.dropHost(host.Nameservers, KindNameserver, r)
	d.dropHost(host.Searches, KindSearch, r)
	d.dropHost(host.Options, KindOption, r)
}

func (d *Decision) dropHost(entries []resolvconf.Entry, k Kind, r Rule) {
	for _, e := range entries {
		d.drop(Entry{Text: e.Text, Kind: k, Source: Source{FromHost, int32(e.Line)}}, r)
	}
}

func entryCount(host *resolvconf.File) int {
	return len(host.Nameservers) + len(host.Searches) + len(host.Options)
}

func withRule(e Entry, r Rule) Entry {
	e.Rule = r
	return e
}
