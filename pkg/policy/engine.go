// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Engine decides the DNS configuration of the pods of one node, in four stages:
//
//  1. base: the entries that the policy gives, of the node and of the host's resolv.conf
//  2. merge: the entries of the pod's dnsConfig
//  3. hostname: the host name and the FQDN
//  4. limits: entries beyond the kubelet's limits are dropped
//
// The rules of [Node.Rules] change the first two; without any, the result is the kubelet's.
//
// An Engine is immutable and safe for concurrent use. Create one with [New].
type Engine struct {
	node Node

	servers   []Entry // the cluster's DNS servers
	rules     []nodeRule
	svcDomain string // "svc." + cluster domain
	suffix    string // ".<cluster domain>.<autopath suffix>"
}

// New returns an Engine for n. The error is a *[NodeError] if a field of n would make the
// resolv.conf of every pod unusable. New copies n.
func New(n Node) (*Engine, error) {
	if err := n.validate(); err != nil {
		return nil, err
	}
	if problems := CheckNodeRules(n.Rules); problems != nil {
		return nil, nodeError("rules"+problems[0].Field, "%s", problems[0].Problem)
	}
	n.IPs, n.AllowedOverrides = slices.Clone(n.IPs), slices.Clone(n.AllowedOverrides)
	if n.Autopath.Suffix == "" {
		n.Autopath.Suffix = DefaultAutopathSuffix
	}
	e := &Engine{node: n, svcDomain: "svc." + n.ClusterDomain, suffix: "." + n.ClusterDomain + "." + n.Autopath.Suffix}
	for i, a := range n.ClusterDNS {
		e.servers = append(e.servers, Entry{a.Unmap().String(), KindNameserver, ruleClusterServer, Source{FromClusterDNS, int32(i)}})
	}
	for i, r := range n.Rules {
		e.rules = append(e.rules, newNodeRule(i, r))
	}
	return e, nil
}

// Decide returns the DNS configuration and the host name of pod on a node whose
// resolv.conf is host. It is deterministic and depends on nothing else. It never fails: if
// the pod cannot start, the Decision says so.
//
// If the file cannot be opened, pass a File with the error. If Node.ResolvConf is "", host
// is ignored.
func (e *Engine) Decide(pod Pod, host resolvconf.File) Decision {
	d := Decision{Steps: make([]Rule, 0, 8), hostFile: e.hostFilePath(host), path: pod.Path}
	e.decide(&d, &pod, host)
	return d
}

// decide is the stages of Decide and, without node rules, host name and advice, of KubeletConfig.
func (e *Engine) decide(d *Decision, pod *Pod, host resolvconf.File) {
	if e.node.ResolvConf == "" {
		host = resolvconf.File{}
		d.addStep(ruleHostDisabled)
	}
	d.Ignored = host.Ignored
	policy := e.effectivePolicy(d, pod)
	var c changes
	if !d.kubelet {
		c = e.changes(pod, policy)
	}
	if !e.applyBase(d, pod, policy, &host, &c) {
		return
	}
	d.mergeConfig(pod.Config, &c)
	d.dropDuplicates(&c)
	d.selectFamilies(pod, &c)
	if d.kubelet {
		d.applyLimits()
		return
	}
	e.setHostname(d, pod)
	d.applyLimits()
	e.advise(d, pod)
}

// hostFilePath returns the path of the host's file for messages: the path from which it was
// read, which may differ from the kubelet's.
func (e *Engine) hostFilePath(host resolvconf.File) string {
	if host.Path != "" {
		return host.Path
	}
	return e.node.ResolvConf
}

// refuse sets the error of a kubelet that does not start the pod.
func (d *Decision) refuse(code Code, field, text, hint string) {
	d.Error = excerpt.Text(text, maxMessage)
	d.addFinding(Finding{
		Code: code, Severity: SeverityError, EnforcedBy: EnforcedByNode,
		Reason: reasonSandbox, Message: "Failed to create pod sandbox: " + text,
		Field: field, Hint: hint,
	})
}

// effectivePolicy returns the override if it is a policy that the node allows, otherwise the
// pod's own. It returns "" if the pod's own is unknown.
func (e *Engine) effectivePolicy(d *Decision, pod *Pod) Policy {
	own := canonicalPolicy(pod.Policy)
	if own == ClusterFirstWithAutopath && pod.Windows {
		own = "" // no admission policy replaces it, because dnsconfigurer does not run on Windows
	}
	if pod.Override == "" {
		return own
	}
	override := canonicalPolicy(pod.Override)
	code, problem, hint := CodeUnknownOverride, "is not a DNS policy", "use ClusterFirstWithAutopath or one of the policies of the API"
	switch {
	case override != "" && override == own:
		return own
	case override != "" && pod.Windows:
		code, problem = CodeForbiddenOverride, "has no effect on Windows"
		hint = "set spec.dnsPolicy: dnsconfigurer does not run on Windows"
	case override == ClusterFirstWithAutopath, override != "" && slices.Contains(e.node.AllowedOverrides, override):
		return override
	case override != "":
		code, problem = CodeForbiddenOverride, "is not an allowed override"
		hint = "set spec.dnsPolicy, or allow it with node.allowedOverrides in the configuration of the node"
	}
	d.report(SeverityWarning, EnforcedByDNSConfigurer, code, "metadata.annotations["+OverrideAnnotation+"]", fmt.Sprintf(
		"annotation %s: %s %s, spec.dnsPolicy applies", OverrideAnnotation, excerpt.Quote(string(pod.Override)), problem), hint)
	return own
}

// canonicalPolicy returns the constant for p, or "" if p is unknown.
func canonicalPolicy(p Policy) Policy {
	switch p {
	case Default, ClusterFirst, ClusterFirstWithHostNet, None:
		return p
	}
	if p.IsAutopath() {
		return ClusterFirstWithAutopath
	}
	return ""
}

// IsAutopath reports whether p is ClusterFirstWithAutopath, in upper or lower case. Only
// letters of ASCII are folded, as in the admission policies: the Unicode letters that fold to
// them have more bytes.
func (p Policy) IsAutopath() bool {
	return len(p) == len(ClusterFirstWithAutopath) && strings.EqualFold(string(p), string(ClusterFirstWithAutopath))
}

// KubeletConfig returns the DNS configuration that the kubelet of the node computes for pod,
// with the options in any order. It differs from the configuration of [Engine.Decide] for
// the input of docs/compatibility.md: a kubelet writes unsafe values, and it knows neither
// Pod.Override nor ClusterFirstWithAutopath nor Node.Rules.
//
// If a kubelet has computed another configuration, compared with [resolvconf.Config.Equal],
// the Node or the host file is not the kubelet's. A kubelet starts no pod with a host file
// that it refuses; the result is then what the readable lines give.
func (e *Engine) KubeletConfig(pod Pod, host resolvconf.File) resolvconf.Config {
	pod.Override = ""
	if canonicalPolicy(pod.Policy) == ClusterFirstWithAutopath {
		pod.Policy = "" // as every policy that a kubelet does not know
	}
	d := Decision{hostFile: e.hostFilePath(host), kubelet: true}
	e.decide(&d, &pod, host)
	return d.Config()
}
