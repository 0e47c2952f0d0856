// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

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
	CodeFQDNWithoutDomain policy.Code = "fqdn-without-domain"
	CodeHostnameCollision policy.Code = "hostname-collision"
	CodeUnknownOption     policy.Code = "unknown-option"
	CodeOptionValue       policy.Code = "option-value"
	CodeRootSearch        policy.Code = "root-search-domain"
	CodeAutopathNeeds     policy.Code = "autopath-needs-admission"
)

// Rules check objects for the nodes of a cluster. They are immutable and safe for
// concurrent use.
type Rules struct {
	engine *policy.Engine
	domain string // the cluster's
	host   resolvconf.File
}

// New returns Rules for nodes with the facts in node and the resolv.conf in host. If host is
// nil, the host file is unknown, and findings that depend on it are left out. The error is
// a [*policy.NodeError], or host.Err.
func New(node policy.Node, host *resolvconf.File) (*Rules, error) {
	r := &Rules{domain: node.ClusterDomain}
	switch {
	case host == nil:
		node.ResolvConf = "/etc/resolv.conf" // not disabled; its contents are empty
	case host.Err != nil:
		return nil, fmt.Errorf("the host's resolv.conf: %w", host.Err)
	default:
		r.host = *host
	}
	var err error
	r.engine, err = policy.New(node)
	return r, err
}

// Check returns the findings in o: first what the API server refuses, then what the nodes
// would refuse or cut, then what fails in the containers. A pod's DNS settings and host name
// are immutable, so an update of a pod has no findings: an existing problem must not prevent
// a change of its labels or finalizers.
func (r *Rules) Check(o Object) []policy.Finding {
	if o.Kind == KindPod && o.Operation == Update {
		return nil
	}
	c := &check{Rules: r, o: &o}
	c.checkHostnames()
	c.checkDNSConfig()
	c.checkDNSPolicy()

	d := r.engine.Decide(o.Pod, r.host)
	for _, f := range d.Findings {
		switch f.Code {
		case policy.CodeInvalidHostname, policy.CodeInvalidSubdomain, policy.CodeInvalidOverride, policy.CodeUnknownPolicy:
			// has a finding of the API server's rules
		case policy.CodeFQDNTooLong:
			c.addFQDNTooLong()
		case policy.CodeServerLimit:
			c.addServersCut(&d)
		case policy.CodeSearchLimit:
			c.addSearchesCut(&d)
		default:
			if !aboutNode(f) {
				f.Field = c.field(f.Field)
				c.add(f)
			}
		}
	}
	c.checkFQDNWithoutDomain()
	c.checkOrdinalLimit()
	c.checkOptions()
	c.checkRootSearch()
	return c.findings
}

// check collects the findings in one object.
type check struct {
	*Rules
	o        *Object
	findings []policy.Finding
}

// add adds f, unless the API server refuses its field for another reason: only that is
// reported until it is corrected.
func (c *check) add(f policy.Finding) {
	refused := func(r policy.Finding) bool {
		return r.EnforcedBy == policy.EnforcedByAPIServer && r.IsError() && r.Field == f.Field
	}
	if f.EnforcedBy == policy.EnforcedByAPIServer || !slices.ContainsFunc(c.findings, refused) {
		c.findings = append(c.findings, f)
	}
}

// refuse adds an error for which the API server refuses the object.
func (c *check) refuse(code policy.Code, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByAPIServer, Message: message, Field: field, Hint: hint})
}

// warn adds a warning.
func (c *check) warn(code policy.Code, by policy.Enforcer, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityWarning, EnforcedBy: by, Message: message, Field: field, Hint: hint})
}

// aboutNode reports whether a finding is about the node instead of the object; `config
// check` reports those. An empty configuration is one of them: with the policy None, the
// API server's rules report it.
func aboutNode(f policy.Finding) bool {
	return f.Code == policy.CodeMissingClusterDNS || f.Code == policy.CodeEmptyConfig ||
		f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS
}

// field converts the field of a finding of the engine to a path in the document: the engine
// does not know the path of a List's item.
func (c *check) field(field string) string {
	if field == "metadata.name" || field == "metadata.namespace" {
		return c.o.of(field)
	}
	return field
}

// checkDNSPolicy applies rule V1: the API server accepts four policies (validation.go,
// validateDNSPolicy), also when the annotation sets another one. It accepts the fifth where
// an admission policy converts it to the annotation.
func (c *check) checkDNSPolicy() {
	field := c.o.ofPod("spec.dnsPolicy")
	switch p := c.o.Pod.Policy; {
	case p == policy.Default, p == policy.ClusterFirst, p == policy.ClusterFirstWithHostNet, p == policy.None:
	case strings.EqualFold(string(p), string(policy.ClusterFirstWithAutopath)):
		c.add(policy.Finding{
			Code: CodeAutopathNeeds, Severity: policy.SeverityInfo, EnforcedBy: policy.EnforcedByAPIServer,
			Message: fmt.Sprintf("dnsPolicy %s is accepted only by clusters in which dnsconfigurer's admission policy is installed", p),
			Field:   field, Hint: "elsewhere use dnsPolicy ClusterFirst and the annotation " + policy.OverrideAnnotation,
		})
	default:
		hint := "use Default, ClusterFirst, ClusterFirstWithHostNet or None"
		if p == "Custom" { // in the first draft of the API
			hint = "Custom became None: use dnsPolicy: None with dnsConfig"
		}
		c.refuse(policy.CodeUnknownPolicy, field, fmt.Sprintf("dnsPolicy %q is unknown", clip(string(p))), hint)
	}
}
