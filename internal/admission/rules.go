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

// The codes of findings that the policy engine does not make.
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

// Rules judge objects for the nodes of a cluster. They do not change after New and
// may be used by many goroutines.
type Rules struct {
	engine *policy.Engine
	domain string // the cluster's
	host   resolvconf.File
}

// New returns Rules for nodes with the facts of node and the resolv.conf host. Without
// a host (nil) what its nodes' files say is unknown, and what depends on them is not
// judged. The error is a [*policy.NodeError], or that host cannot be read.
func New(node policy.Node, host *resolvconf.File) (*Rules, error) {
	r := &Rules{domain: node.ClusterDomain}
	switch {
	case host == nil:
		node.ResolvConf = "/etc/resolv.conf" // not disabled; what is in it adds nothing
	case host.Err != nil:
		return nil, fmt.Errorf("the host's resolv.conf: %w", host.Err)
	default:
		r.host = *host
	}
	var err error
	r.engine, err = policy.New(node)
	return r, err
}

// Check returns what is wrong with o: first what the API server refuses, then what
// the nodes would do to the pods, then what the containers would make of it. A pod's
// DNS and host name do not change, so an update of a pod has no findings: what is
// wrong with an old one must not be in the way of its labels and finalizers.
func (r *Rules) Check(o Object) []policy.Finding {
	if o.Kind == KindPod && o.Operation == Update {
		return nil
	}
	c := &check{Rules: r, o: &o}
	c.hostnames()
	c.dnsConfig()
	c.dnsPolicy()

	d := r.engine.Decide(o.Pod, r.host)
	for _, f := range d.Findings {
		switch f.Code {
		case policy.CodeInvalidHostname, policy.CodeInvalidSubdomain, policy.CodeInvalidOverride, policy.CodeUnknownPolicy:
			// the API server's rules have said it
		case policy.CodeFQDNTooLong:
			c.fqdnTooLong()
		case policy.CodeServerLimit:
			c.serversCut(&d)
		case policy.CodeSearchLimit:
			c.searchesCut(&d)
		default:
			if !aboutNode(f) {
				f.Field = c.field(f.Field)
				c.add(f)
			}
		}
	}
	c.fqdnWithoutDomain()
	c.ordinalLimit()
	c.options()
	c.rootSearch()
	return c.found
}

// check is the judgement of one object on its way.
type check struct {
	*Rules
	o     *Object
	found []policy.Finding
}

// add adds f, unless its field is one that the API server refuses for another reason:
// once that is corrected there will be time for the rest.
func (c *check) add(f policy.Finding) {
	refused := func(r policy.Finding) bool {
		return r.EnforcedBy == policy.EnforcedByAPIServer && r.IsError() && r.Field == f.Field
	}
	if f.EnforcedBy == policy.EnforcedByAPIServer || !slices.ContainsFunc(c.found, refused) {
		c.found = append(c.found, f)
	}
}

// refuse adds what the API server refuses.
func (c *check) refuse(code policy.Code, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByAPIServer, Message: message, Field: field, Hint: hint})
}

// warn adds what the node lets pass, or does in silence.
func (c *check) warn(code policy.Code, by policy.Enforcer, field, message, hint string) {
	c.add(policy.Finding{Code: code, Severity: policy.SeverityWarning, EnforcedBy: by, Message: message, Field: field, Hint: hint})
}

// aboutNode tells whether a finding is about the node and not about the object:
// `config check` is for it. So is an empty configuration, unless the policy is None,
// for which there is a rule of the API server.
func aboutNode(f policy.Finding) bool {
	return f.Code == policy.CodeMissingClusterDNS || f.Code == policy.CodeEmptyConfig ||
		f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS
}

// field returns the field of one of the engine's findings as a path from the
// document: the engine does not know where the name of a List's item stands.
func (c *check) field(field string) string {
	if field == "metadata.name" || field == "metadata.namespace" {
		return c.o.of(field)
	}
	return field
}

// dnsPolicy is V1: the API server knows four policies (validation.go,
// validateDNSPolicy), also when the annotation names another one. The fifth is accepted
// where an admission policy turns it into the annotation.
func (c *check) dnsPolicy() {
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
		if p == "Custom" { // of the first draft of the API
			hint = "Custom became None: use dnsPolicy: None with dnsConfig"
		}
		c.refuse(policy.CodeUnknownPolicy, field, fmt.Sprintf("dnsPolicy %q is unknown", clip(string(p))), hint)
	}
}
