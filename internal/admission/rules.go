// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// The codes of the findings that are not from the policy engine.
const (
	CodeNoNameservers     policy.Code = "none-without-nameservers"
	CodeInvalidNameserver policy.Code = "invalid-nameserver"
	CodeTooManyServers    policy.Code = "too-many-nameservers"
	CodeInvalidSearch     policy.Code = "invalid-search-domain"
	CodeTooManySearches   policy.Code = "too-many-search-domains"
	CodeSearchListTooLong policy.Code = "search-list-too-long"
	CodeUnnamedOption     policy.Code = "unnamed-option"
	CodeOverrideConflict  policy.Code = "hostname-override-conflict"
	CodeGeneratedHostname policy.Code = "generated-hostname"
	CodeOrdinalLimit      policy.Code = "ordinal-limit"
	CodeStatefulSetName   policy.Code = "statefulset-name"
	CodeFQDNWithoutDomain policy.Code = "fqdn-without-domain"
	CodeHostnameCollision policy.Code = "hostname-collision"
	CodeUnknownOption     policy.Code = "unknown-option"
	CodeOptionValue       policy.Code = "option-value"
	CodeRootSearch        policy.Code = "root-search-domain"
	CodeAutopathNeeds     policy.Code = "autopath-needs-admission"
	CodeInvalidNodeName   policy.Code = "invalid-node-name"
	CodeInvalidName       policy.Code = "invalid-name" // of a pod it is [policy.CodeInvalidName]
	CodeInvalidNamespace  policy.Code = "invalid-namespace"
	CodeInvalidHostAlias  policy.Code = "invalid-host-alias"
)

// Unknown names the node facts that are defaults instead of the values of a cluster.
type Unknown struct{ ClusterDomain, ClusterDNS bool }

// WithUnknown returns r without the rules that could have another result with the values of
// the cluster and deny a valid pod, or warn of one: those on the length of an FQDN, and
// those that count the nameservers of the cluster or compare with them.
func (r *Rules) WithUnknown(u Unknown) *Rules {
	c := *r
	c.unknown = u
	return &c
}

// Rules check objects for the nodes of a cluster. They are immutable and safe for
// concurrent use.
type Rules struct {
	engine *policy.Engine
	domain string // the cluster's
	host   resolvconf.File

	hostUnknown bool
	unknown     Unknown
}

// New returns Rules for nodes with the facts in node and the resolv.conf in host. If host is
// nil, the host file is unknown, and findings that depend on it are left out. The error is
// a [*policy.NodeError], or host.Err.
func New(node policy.Node, host *resolvconf.File) (*Rules, error) {
	r := &Rules{domain: node.ClusterDomain}
	switch {
	case host == nil:
		node.ResolvConf, r.hostUnknown = "/etc/resolv.conf", true // not disabled; its contents are empty
	case host.Err != nil:
		return nil, fmt.Errorf("the host's resolv.conf: %w", host.Err)
	default:
		r.host = *host
	}
	var err error
	r.engine, err = policy.New(node)
	return r, err
}

// hostRules are the codes of the rules about lists to which the host file adds entries.
var hostRules = []policy.Code{
	policy.CodeServerLimit, policy.CodeSearchLimit, policy.CodeMuslSearchLine, policy.CodeOldGlibcSearch,
	policy.CodeGlibcCrashes, policy.CodeMuslCrashes,
}

// Skipped returns the number of rules that the host file, which is unknown, decides for o.
func (r *Rules) Skipped(o Object) int {
	if !r.hostUnknown || o.Pod.Policy == policy.None || o.Pod.Policy == policy.ClusterFirstWithAutopath {
		return 0
	}
	return len(hostRules)
}

// Check returns the findings in o, at most MaxFindings and the first of each other code: first what
// the API server refuses, then what the nodes would refuse or cut, then what fails in the
// containers. A pod's DNS settings and host name are immutable, so an update of a pod has no
// findings: an existing problem must not prevent a change of its labels or finalizers.
//
// The time is linear in the size of the object. Every loop over a list of the pod ends when
// ctx is done; the error is then that of ctx.
func (r *Rules) Check(ctx context.Context, o Object) ([]policy.Finding, error) {
	if o.Kind == KindPod && o.Operation == Update {
		return nil, nil
	}
	c := newCheck(&o)
	c.Rules = r
	c.checkHostnames(c.checkNames())
	if n := o.Node; n != "" && fqdn.SubdomainProblems(n) != nil { // its kubelet sets it in spec.nodeName (validation.go, ValidateNodeName)
		c.refuse(CodeInvalidNodeName, "spec.nodeName",
			fmt.Sprintf("node name %q is not a DNS subdomain: the kubelet refuses its static pods", clip(n)),
			"register the node with a name in lower case")
	}
	c.checkHostAliases(ctx)
	c.checkDNSConfig(ctx)
	c.checkDNSPolicy()

	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d := r.engine.Decide(o.Pod, r.host)
	for _, f := range d.Findings {
		c.addDecided(&d, f)
	}
	c.checkFQDNWithoutDomain()
	c.checkOrdinalLimit()
	c.checkRevisionLabel()
	c.checkOptions(ctx)
	c.checkRootSearch(ctx)
	return c.findings, ctx.Err()
}

// addDecided adds a finding of the engine, unless another rule has it, or it is about the node and
// changes nothing of the pod.
func (c *check) addDecided(d *policy.Decision, f policy.Finding) {
	switch f.Code {
	case policy.CodeEmptyConfig:
		// If spec.dnsPolicy is None, the API server refuses the pod. With other policies the nameservers are missing in the
		// configuration of the node.
		_, ignored := c.last[policy.CodeForbiddenOverride]
		if c.o.Pod.Override == policy.None && c.o.Pod.Policy != policy.None && !ignored {
			c.add(f)
		}
	case policy.CodeFQDNTooLong:
		c.addFQDNTooLong()
	case policy.CodeServerLimit:
		c.addServersCut(d, f)
	case policy.CodeForeignNameserver:
		if !c.unknown.ClusterDNS {
			c.addFromNode(f)
		}
	case policy.CodeSearchLimit:
		c.addSearchesCut(d, f)
	default:
		if !hasRefusal(f.Code) {
			c.addFromNode(f)
		}
	}
}

// addFromNode adds a finding of the engine, unless it is about the node.
func (c *check) addFromNode(f policy.Finding) {
	if !aboutNode(f) {
		f.Field = c.field(f.Field)
		c.add(f)
	}
}

// aboutNode reports whether a finding is about the node instead of the object; `config
// check` reports those.
func aboutNode(f policy.Finding) bool {
	return f.Code == policy.CodeMissingClusterDNS || f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS
}

// field converts the field of a finding of the engine to a path in the document: the engine
// does not know the path of a List's item.
func (c *check) field(field string) string {
	switch field {
	case "metadata.name":
		return c.o.nameField()
	case "metadata.namespace":
		return c.o.of(field)
	}
	return field
}

// checkDNSPolicy applies rule V1: the API server accepts four policies (validation.go,
// validateDNSPolicy), even when the annotation sets another one. It accepts the fifth where
// an admission policy converts it to the annotation.
func (c *check) checkDNSPolicy() {
	field := c.o.ofPod("spec.dnsPolicy")
	switch p := c.o.Pod.Policy; {
	case p == policy.Default, p == policy.ClusterFirst, p == policy.ClusterFirstWithHostNet, p == policy.None:
	case p.IsAutopath() && c.o.Pod.Windows:
		c.refuse(policy.CodeUnknownPolicy, field,
			fmt.Sprintf("dnsPolicy %s is unknown for pods of Windows: no admission policy replaces it there", p),
			"use dnsPolicy ClusterFirst")
	case p.IsAutopath() && c.o.Node != "":
		c.refuse(CodeAutopathNeeds, field,
			fmt.Sprintf("dnsPolicy %s in a static pod, which no admission policy changes: the kubelet refuses it", p),
			"use dnsPolicy ClusterFirst and the annotation "+policy.OverrideAnnotation)
	case p.IsAutopath():
		c.add(policy.Finding{
			Code: CodeAutopathNeeds, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByAPIServer,
			Message: fmt.Sprintf("dnsPolicy %s is accepted only by clusters in which dnsconfigurer's admission policy is installed", p),
			Field:   field, Hint: "elsewhere use dnsPolicy ClusterFirst and the annotation " + policy.OverrideAnnotation,
		})
	default:
		c.refuse(policy.CodeUnknownPolicy, field, fmt.Sprintf("dnsPolicy %q is unknown", clip(string(p))), unknownPolicyHint(string(p)))
	}
}

// unknownPolicyHint returns what to write instead of a dnsPolicy that Kubernetes does not have.
func unknownPolicyHint(unknown string) string {
	if unknown == "Custom" { // in the first draft of the API
		return "Custom became None: use dnsPolicy: None with dnsConfig"
	}
	known := []string{string(policy.Default), string(policy.ClusterFirst), string(policy.ClusterFirstWithHostNet), string(policy.None)}
	if meant, ok := excerpt.Closest(unknown, known); ok {
		return "did you mean " + meant + "?"
	}
	return "use Default, ClusterFirst, ClusterFirstWithHostNet or None"
}

// Collisions returns, for each object, the findings that follow from the objects before it:
// nodes truncate long host names without making them unique (rule N4), so that pods with
// different names can have the same host name.
func Collisions(objects []Object) [][]policy.Finding {
	type hostKey struct{ namespace, host string }
	first := map[hostKey]string{} // the name before the truncation
	findings := make([][]policy.Finding, len(objects))
	for i, o := range objects {
		c := newCheck(&o)
		name, field := c.host(), c.o.hostnameField()
		if o.Pod.HostnameOverride != nil {
			name, field = *o.Pod.HostnameOverride, c.o.ofPod("spec.hostnameOverride")
		}
		host := fqdn.CutHostname(name)
		if host == "" || o.Pod.HostNetwork {
			continue
		}
		key := hostKey{o.Pod.Namespace, host}
		other, used := first[key]
		switch {
		case !used:
			first[key] = name
		case other != name: // one of the two was truncated
			c.warn(CodeHostnameCollision, policy.EnforcedByNode, field,
				fmt.Sprintf("truncated to %d characters, the host name is %s, the same as that of %s", fqdn.MaxHostname, host, clip(other)),
				"let the names differ in their first 63 characters, or set spec.hostname")
			findings[i] = c.findings
		}
	}
	return findings
}
