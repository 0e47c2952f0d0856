// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Engine decides for the pods of one node, in this order:
//
//  1. base: what the policy takes from the node and from the host's file;
//  2. merge: the pod's dnsConfig after it;
//  3. hostname: the host name and the FQDN;
//  4. limits: what does not fit is cut.
//
// An Engine does not change after New and may be used by many goroutines.
type Engine struct {
	node Node

	servers   []Entry // the cluster's DNS servers
	svcDomain string  // "svc." + cluster domain
	suffix    string  // ".<cluster domain>.<autopath suffix>"
}

// New returns an Engine for n, or a *NodeError that names the field of n which no pod
// could live with.
func New(n Node) (*Engine, error) {
	if err := n.validate(); err != nil {
		return nil, err
	}
	n.IPs = slices.Clone(n.IPs)
	if n.Autopath.Suffix == "" {
		n.Autopath.Suffix = DefaultAutopathSuffix
	}
	e := &Engine{node: n, svcDomain: "svc." + n.ClusterDomain, suffix: "." + n.ClusterDomain + "." + n.Autopath.Suffix}
	for i, a := range n.ClusterDNS {
		e.servers = append(e.servers, Entry{a.Unmap().String(), KindNameserver, ruleClusterServer, Source{FromClusterDNS, int32(i)}})
	}
	return e, nil
}

// Decide says what pod gets on a node whose resolv.conf is host. It is total and
// deterministic, and reads nothing else. A file that could not be opened is a File
// with that error; the File of a node without one (Node.ResolvConf "") is not
// looked at.
func (e *Engine) Decide(pod Pod, host resolvconf.File) Decision {
	d := Decision{Steps: make([]Rule, 0, 8), hostFile: e.nameOf(host), path: pod.Path}
	if e.node.ResolvConf == "" {
		host = resolvconf.File{}
		d.step(ruleHostDisabled)
	}
	d.Ignored = host.Ignored

	if e.base(&d, &pod, &host) {
		d.merge(pod.Config)
		e.name(&d, &pod)
		d.fit()
		e.advise(&d, &pod)
	}
	return d
}

// nameOf returns the path of the host's file for people: where it was read, which
// need not be where the kubelet reads.
func (e *Engine) nameOf(host resolvconf.File) string {
	if host.Path != "" {
		return host.Path
	}
	return e.node.ResolvConf
}

// refuse records that the kubelet does not start the pod because of text.
func (d *Decision) refuse(code Code, field, text, hint string) {
	d.Error = text
	d.find(Finding{
		Code: code, Severity: SeverityError, EnforcedBy: EnforcedByNode,
		Reason: reasonSandbox, Message: "Failed to create pod sandbox: " + text,
		Field: field, Hint: hint,
	})
}

// effective returns the policy that counts: the override when it is one we know,
// else the pod's own.
func (d *Decision) effective(pod *Pod) Policy {
	if pod.Override == "" {
		return known(pod.Policy)
	}
	if p := known(pod.Override); p != "" {
		return p
	}
	d.find(Finding{
		Code: CodeUnknownOverride, Severity: SeverityError, EnforcedBy: EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("annotation %s: %q is not a DNS policy, spec.dnsPolicy applies", OverrideAnnotation, pod.Override),
		Field:   "metadata.annotations[" + OverrideAnnotation + "]",
		Hint:    "use ClusterFirstWithAutopath or one of the policies of the API",
	})
	return known(pod.Policy)
}

// known returns p in its own spelling, "" for a policy that nobody knows.
func known(p Policy) Policy {
	switch p {
	case Default, ClusterFirst, ClusterFirstWithHostNet, None:
		return p
	}
	if strings.EqualFold(string(p), string(ClusterFirstWithAutopath)) {
		return ClusterFirstWithAutopath
	}
	return ""
}
