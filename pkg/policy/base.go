// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// applyBase adds the entries that pod's policy gives. It reports whether the pod can start;
// it cannot if it needs the host's file and the kubelet refuses the file.
func (e *Engine) applyBase(d *Decision, pod *Pod, policy Policy, host *resolvconf.File, c *changes) bool {
	rule := e.chooseBase(d, pod, policy, c)
	d.addStep(rule)
	if rule == ruleBaseHost && host.Err != nil {
		d.addStep(ruleHostRefused)
		d.refuse(CodeHostFileRefused, FieldResolvConf, host.Err.Error(),
			"correct or create "+d.hostFile+" on the node; pods with other policies start without it")
		d.dropHostFile(host, ruleHostRefused)
		for e := range pod.Config.entries {
			d.drop(e, ruleHostRefused)
		}
		return false
	}
	if slices.Contains(d.Steps, ruleWithoutClusterDNS) {
		d.missingClusterDNS(pod)
	}
	if host.Err != nil {
		d.report(SeverityWarning, EnforcedByNode, CodeHostFileNotNeeded, FieldResolvConf,
			"the kubelet starts no pod with this host file: "+host.Err.Error(),
			"correct or create "+d.hostFile+" on the node; this pod does not use what is missing")
	}
	switch rule {
	case ruleBaseNone:
		d.allocate(pod.Config, 0, 0, 0, entryCount(host))
		d.dropHostFile(host, ruleNoneWithoutHost)
		return true
	case ruleBaseHost:
		e.applyHostBase(d, pod.Config, host, c)
		d.dropUnreachable(pod, c)
	case ruleBaseCluster:
		e.applyClusterBase(d, pod, host, c)
	case ruleBaseAutopath:
		e.applyAutopathBase(d, pod, host, c)
	}
	d.addOptions(c)
	return true
}

// chooseBase returns one of the four ruleBase rules, by the rules P1, P2, P4, A1 and A2.
func (e *Engine) chooseBase(d *Decision, pod *Pod, policy Policy, c *changes) Rule {
	switch {
	case policy == None:
		return ruleBaseNone
	case policy == Default:
		return ruleBaseHost
	case policy == ClusterFirst && pod.HostNetwork:
		if r := c[changeHostNetwork]; r != nil {
			d.applyNodeRule(ruleHostNetworkAsCluster, r)
			break
		}
		d.addStep(ruleHostNetworkAsDefault)
		d.report(SeverityWarning, EnforcedByNode, CodeHostNetworkDefault, "spec.dnsPolicy",
			"dnsPolicy ClusterFirst on the host's network gives the host's DNS: the pod resolves no Services",
			"use ClusterFirstWithHostNet, or Default for the host's DNS")
		return ruleBaseHost
	case policy == "":
		d.unknownPolicy(pod)
	}
	if policy == ClusterFirstWithAutopath && e.canAutopath(d, pod) {
		return ruleBaseAutopath
	}
	if len(e.servers) == 0 {
		d.addStep(ruleWithoutClusterDNS)
		return ruleBaseHost
	}
	return ruleBaseCluster
}

// applyHostBase is rule P5.
func (e *Engine) applyHostBase(d *Decision, config *DNSConfig, host *resolvconf.File, c *changes) {
	if e.node.ResolvConf != "" {
		d.allocate(config, len(host.Nameservers), len(host.Searches), len(host.Options), 0)
		d.addHostEntries(host.Nameservers, KindNameserver, ruleHostEntry)
		d.addHostSearches(host.Searches, ruleHostEntry, c)
		d.addHostEntries(host.Options, KindOption, ruleHostEntry)
		return
	}
	for i, ip := range e.node.IPs {
		server := "127.0.0.1"
		if ip.Unmap().Is6() {
			server = "::1"
		}
		d.add(Entry{server, KindNameserver, ruleNodeServer, Source{FromNodeIP, int32(i)}})
	}
	if len(e.node.IPs) == 0 {
		d.add(Entry{"127.0.0.1", KindNameserver, ruleNodeServer, Source{Origin: FromRule}})
	}
	d.add(Entry{".", KindSearch, ruleNodeRootDomain, Source{Origin: FromRule}})
}

// applyClusterBase is rule P3. If there is a cluster domain, duplicate search domains are
// dropped; otherwise the host's search domains stay as they are.
func (e *Engine) applyClusterBase(d *Decision, pod *Pod, host *resolvconf.File, c *changes) {
	d.allocate(pod.Config, len(e.servers), 3+len(host.Searches), 1, len(host.Nameservers)+len(host.Options))
	d.Nameservers = append(d.Nameservers, e.servers...)
	domain := Source{Origin: FromClusterDomain}
	if e.node.ClusterDomain == "" {
		d.addHostSearches(host.Searches, ruleClusterHostDomain, c)
	} else {
		e.addSubdomain(d, pod, PlaceFirst, c)
		d.add(Entry{pod.Namespace + "." + e.svcDomain, KindSearch, ruleClusterDomain, domain})
		d.add(Entry{e.svcDomain, KindSearch, ruleClusterDomain, domain})
		d.add(Entry{e.node.ClusterDomain, KindSearch, ruleClusterDomain, domain})
		d.addHostSearches(host.Searches, ruleClusterHostDomain, c)
		e.addSubdomain(d, pod, PlaceLast, c)
		d.dedupe(KindSearch, MaxSearches)
	}
	d.add(Entry{"ndots:5", KindOption, ruleClusterNdots, Source{Origin: FromRule}})
	d.dropHostEntries(host.Nameservers, KindNameserver, ruleClusterWithoutHost)
	d.inheritOptions(host.Options, ruleClusterWithoutHost, c)
}

// applyAutopathBase is rule A1: one server, one search domain.
func (e *Engine) applyAutopathBase(d *Decision, pod *Pod, host *resolvconf.File, c *changes) {
	d.allocate(pod.Config, 2, 1, 1, entryCount(host))
	servers := e.servers
	if a := e.node.Autopath.NodeCache; a.IsValid() {
		servers = append([]Entry{{a.Unmap().String(), KindNameserver, 0, Source{Origin: FromNodeCache}}}, servers...)
	}
	most := 1
	if e.node.Autopath.ClusterDNSFallback {
		most = 2
	}
	for _, s := range servers[:min(len(servers), most)] {
		s.Rule = ruleAutopathServer
		d.add(s)
	}
	d.add(Entry{e.autopathDomain(pod), KindSearch, ruleAutopathDomain, Source{Origin: FromClusterDomain}})
	d.add(Entry{"ndots:5", KindOption, ruleClusterNdots, Source{Origin: FromRule}})
	d.dropHostEntries(host.Nameservers, KindNameserver, ruleAutopathWithoutHost)
	d.dropHostEntries(host.Searches, KindSearch, ruleAutopathWithoutHost)
	d.inheritOptions(host.Options, ruleAutopathWithoutHost, c)
}

func (e *Engine) autopathDomain(pod *Pod) string {
	return "search." + pod.Namespace + e.suffix
}

// canAutopath is rule A2. It reports whether there is a server, a cluster domain and a
// valid autopath domain; if not, the pod is treated as ClusterFirstWithHostNet.
func (e *Engine) canAutopath(d *Decision, pod *Pod) bool {
	var problem string
	switch {
	case !e.node.Autopath.NodeCache.IsValid() && len(e.servers) == 0:
		problem = "the node has neither a node cache nor a cluster DNS server"
	case e.node.ClusterDomain == "":
		problem = "the node has no cluster domain"
	default:
		domain := e.autopathDomain(pod)
		if p := fqdn.DomainProblem(domain); p != "" {
			problem = "its search domain " + domain + " " + p
		} else if isUnsafe(KindSearch, domain) {
			problem = fmt.Sprintf("its search domain %q is not one word", domain)
		}
	}
	if problem == "" {
		return true
	}
	d.addStep(ruleWithoutAutopath)
	d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeAutopathUnavailable, "spec.dnsPolicy",
		"ClusterFirstWithAutopath is treated as ClusterFirstWithHostNet: "+problem,
		"configure a cluster DNS and a cluster domain for the node, or use ClusterFirst")
	return false
}

func (d *Decision) unknownPolicy(pod *Pod) {
	d.addStep(ruleUnknownAsCluster)
	hint := "use Default, ClusterFirst, ClusterFirstWithHostNet, None or ClusterFirstWithAutopath"
	switch {
	case pod.Policy == "Custom": // the name of None in the first draft of its KEP, still found in manifests
		hint = "Custom became None: use dnsPolicy: None with dnsConfig"
	case pod.Windows:
		hint = "use Default, ClusterFirst or None"
	}
	d.report(SeverityError, EnforcedByAPIServer, CodeUnknownPolicy, "spec.dnsPolicy", fmt.Sprintf("dnsPolicy %q is unknown: "+
		"the API server refuses it, a kubelet treats it as ClusterFirst on every network", string(pod.Policy)), hint)
}

// missingClusterDNS adds the events of rule P4. The kubelet sends them only if it can read
// the host file (H2), and names ClusterFirst for every policy.
func (d *Decision) missingClusterDNS(pod *Pod) {
	const message = `kubelet does not have ClusterDNS IP configured and cannot create Pod using ` +
		`"ClusterFirst" policy. Falling back to "Default" policy.`
	f := Finding{
		Code: CodeNodeMissingDNS, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonMissing,
		Message: message, Field: FieldClusterDNS, Hint: "set clusterDNS in the KubeletConfiguration",
	}
	d.addFinding(f)
	f.Code, f.Field = CodeMissingClusterDNS, "spec.dnsPolicy"
	f.Message = fmt.Sprintf("pod: %q. %s", fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), message)
	d.addFinding(f)
}

// allocate allocates the lists in one piece, for the given numbers of entries plus the entries of
// c, but at most 64 each. A longer list, as in a hostile file, grows as needed.
func (d *Decision) allocate(c *DNSConfig, nameservers, searches, options, dropped int) {
	if c != nil {
		nameservers += len(c.Nameservers)
		searches += len(c.Searches)
		options += len(c.Options)
		dropped += len(c.Options) // each may override another one
	}
	const limit = 64
	sizes := [...]int{min(nameservers, limit), min(searches, limit), min(options, limit), min(dropped, limit)}
	buf := make([]Entry, sizes[0]+sizes[1]+sizes[2]+sizes[3])
	for i, list := range [...]*[]Entry{&d.Nameservers, &d.Searches, &d.Options, &d.Dropped} {
		*list = buf[:0:sizes[i]]
		buf = buf[sizes[i]:]
	}
}

// add appends e to its list, or drops it if it is unsafe.
func (d *Decision) add(e Entry) {
	if d.omitsUnsafe(e) {
		return
	}
	list := d.list(e.Kind)
	*list = append(*list, e)
}

func (d *Decision) addHostEntries(entries []resolvconf.Entry, k Kind, r Rule) {
	for _, e := range entries {
		d.add(Entry{e.Text, k, r, Source{FromHost, int32(e.Line)}})
	}
}

func (d *Decision) dropHostFile(host *resolvconf.File, r Rule) {
	d.dropHostEntries(host.Nameservers, KindNameserver, r)
	d.dropHostEntries(host.Searches, KindSearch, r)
	d.dropHostEntries(host.Options, KindOption, r)
}

func (d *Decision) dropHostEntries(entries []resolvconf.Entry, k Kind, r Rule) {
	for _, e := range entries {
		d.drop(Entry{Text: e.Text, Kind: k, Source: Source{FromHost, int32(e.Line)}}, r)
	}
}

func entryCount(host *resolvconf.File) int {
	return len(host.Nameservers) + len(host.Searches) + len(host.Options)
}
