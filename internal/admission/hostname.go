// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// maxOverride is the size in bytes of the longest hostnameOverride that the API server
// accepts (validation.go, validatePodHostName). The kubelet truncates it to one less.
const maxOverride = 64

// checkHostnames applies rule V4: the host names that the API server refuses. Those that the
// controller makes of the object's name follow from it: they are left out unless the name is
// valid.
func (c *check) checkHostnames(validName bool) {
	pod := &c.o.Pod
	c.refuseLabel(policy.CodeInvalidHostname, c.o.ofPod("spec.hostname"), "host name", c.o.TemplateHostname)
	if !c.o.Ordinal {
		c.refuseLabel(policy.CodeInvalidHostname, c.o.hostnameField(), "host name", pod.Hostname)
	} else if p, hint := labelProblem(pod.Hostname); p != "" && validName {
		// The API server validates the host names of an Indexed Job, and refuses the Job. Of the other controllers it later
		// refuses the objects that they create, which only an event on the owner shows.
		if acceptedFirst(c.o) {
			p += "; the API server accepts the object and refuses what it creates"
		}
		c.refuseValue(CodeGeneratedHostname, c.o.hostnameField(), "the pods' host name", pod.Hostname, p, hint)
	}
	c.refuseLabel(policy.CodeInvalidSubdomain, c.o.subdomainField(), "subdomain", pod.Subdomain)
	if pod.HostnameOverride != nil {
		c.checkOverride(*pod.HostnameOverride)
	}
}

func (c *check) refuseLabel(code policy.Code, field, what, value string) {
	problem, hint := labelProblem(value)
	c.refuseValue(code, field, what, value, problem, hint)
}

// Limits of the name of a StatefulSet. Its pods have the label controller-revision-hash, the
// name, a dash and a hash of 8 to 10 characters, and a label has at most 63 (kubernetes#64023).
const (
	maxRevisionName = fqdn.MaxLabel - 1 - 10 // with every hash
	maxRevisionHash = 10
	minRevisionHash = 8
)

// checkRevisionLabel reports the name of a StatefulSet with which its pods have an invalid
// label: the API server accepts the object, and refuses its pods.
func (c *check) checkRevisionLabel() {
	n := len(c.o.Name)
	if c.o.Kind != kindStatefulSet || n <= maxRevisionName {
		return
	}
	if p, _ := labelProblem(c.o.Pod.Hostname); p != "" {
		return
	}
	field, hint := c.o.nameField(), fmt.Sprintf("shorten the name by %d", n-maxRevisionName)
	if least := n + 1 + minRevisionHash; least > fqdn.MaxLabel {
		c.refuse(CodeStatefulSetName, field,
			fmt.Sprintf("the pods' label controller-revision-hash would have at least %d characters, "+
				"%d is the limit; the API server accepts the object and refuses its pods", least, fqdn.MaxLabel), hint)
		return
	}
	c.warn(CodeStatefulSetName, policy.EnforcedByAPIServer, field,
		fmt.Sprintf("the pods' label controller-revision-hash would have up to %d characters, %d is "+
			"the limit: with most hashes the API server refuses the pods", n+1+maxRevisionHash, fqdn.MaxLabel), hint)
}

// labelProblem returns why s is not a DNS label and what to do, or "". It returns "" for an empty s.
func labelProblem(s string) (problem, hint string) {
	hint = "use lower-case letters, digits and '-', with a letter or digit at both ends"
	switch {
	case s == "" || fqdn.LabelProblems(s) == nil:
		return "", ""
	case len(s) > fqdn.MaxLabel:
		return lengthProblem(s, fqdn.MaxLabel)
	case fqdn.SubdomainProblems(s) == nil:
		return "has dots, a DNS label has none", hint
	default:
		return "is not a DNS label", hint
	}
}

// acceptedFirst reports whether the API server accepts o, and later refuses the pods with the
// names that its controller generates. It validates a StatefulSet's name without the ordinal
// (apps/validation, ValidateStatefulSetName), and accepts each CronJob.
func acceptedFirst(o *Object) bool { return o.Kind == kindCronJob || o.Kind == kindStatefulSet }

// checkOverride applies rule V4 to hostnameOverride (validation.go, validatePodHostName).
func (c *check) checkOverride(override string) {
	field := c.o.ofPod("spec.hostnameOverride")
	if c.o.Pod.SetHostnameAsFQDN {
		c.refuse(CodeOverrideConflict, field, "hostnameOverride and setHostnameAsFQDN: true exclude each other", "drop one of them")
	}
	if c.o.Pod.HostNetwork {
		c.refuse(CodeOverrideConflict, field, "hostnameOverride and hostNetwork: true exclude each other",
			"drop hostnameOverride: the host name is the node's")
	}
	if over := len(override) - maxOverride; over > 0 {
		c.refuse(policy.CodeInvalidOverride, field,
			fmt.Sprintf("hostnameOverride has %d characters, %d is the limit of the API server, %d of the node",
				len(override), maxOverride, fqdn.MaxHostname),
			fmt.Sprintf("shorten it by %d", len(override)-fqdn.MaxHostname))
	}
	if fqdn.SubdomainProblems(override) != nil && len(override) <= maxOverride {
		c.refuse(policy.CodeInvalidOverride, field, fmt.Sprintf("hostnameOverride %q is not a DNS subdomain", override),
			"use lower-case letters, digits, '-' and '.', with a letter or digit at both ends")
	}
}

// fqdn returns the FQDN of a pod with a host name (rule N5 of docs/checks.md).
func (c *check) fqdn(host string) string {
	return host + "." + c.o.Pod.Subdomain + "." + c.o.Pod.Namespace + ".svc." + c.domain
}

// host returns the host name of the pods before it is truncated.
func (c *check) host() string {
	if c.o.Pod.Hostname != "" {
		return c.o.Pod.Hostname
	}
	return c.o.Pod.Name
}

// wantsFQDN reports whether the kubelet sets the FQDN as the host name (rule N6).
func (c *check) wantsFQDN() bool {
	pod := &c.o.Pod
	return pod.SetHostnameAsFQDN && !pod.HostNetwork && pod.HostnameOverride == nil && pod.Subdomain != ""
}

// addFQDNTooLong reports rule N6: such a pod stays pending forever (KEP-1797).
func (c *check) addFQDNTooLong() {
	if c.unknown.ClusterDomain {
		return
	}
	name := c.fqdn(fqdn.CutHostname(c.host()))
	c.add(policy.Finding{
		Code: policy.CodeFQDNTooLong, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
		Message: fmt.Sprintf("FQDN %s would be %d characters, %d is the limit", name, len(name), fqdn.MaxNodename),
		Field:   c.o.ofPod("spec.setHostnameAsFQDN"),
		Hint:    c.shortenHint(len(name)-fqdn.MaxNodename) + ", or drop setHostnameAsFQDN",
	})
}

// shortenHint returns a hint with the parts of the FQDN each of which can be shortened by
// over, or with all parts if none of them can.
func (c *check) shortenHint(over int) string {
	parts := []struct{ name, text string }{{"name", c.o.Name}, {"subdomain", c.o.Pod.Subdomain}, {"namespace", c.o.Pod.Namespace}}
	if !c.o.Ordinal && c.o.Pod.Hostname != "" {
		parts[0] = struct{ name, text string }{"host name", c.o.Pod.Hostname}
	}
	if c.o.Kind == kindStatefulSet {
		parts[1].name = "service name"
	}
	by := "by "
	if len(c.host()) >= fqdn.MaxHostname { // shortening the truncated part gains nothing
		by = "by at least "
	}
	var long []string
	for _, p := range parts {
		if len(p.text) > over {
			long = append(long, p.name)
		}
	}
	if long == nil {
		return fmt.Sprintf("shorten the %s, the %s and the %s %s%d together", parts[0].name, parts[1].name, parts[2].name, by, over)
	}
	return "shorten the " + strings.Join(long, " or the ") + " " + by + strconv.Itoa(over)
}

// checkFQDNWithoutDomain warns of setHostnameAsFQDN where it has no effect: a pod without a
// subdomain, or on the host network, has no FQDN (rules N1 and N6).
func (c *check) checkFQDNWithoutDomain() {
	pod := &c.o.Pod
	if !pod.SetHostnameAsFQDN || pod.HostnameOverride != nil {
		return
	}
	field := c.o.ofPod("spec.setHostnameAsFQDN")
	switch {
	case pod.HostNetwork:
		c.warn(CodeFQDNWithoutDomain, policy.EnforcedByNode, field,
			"setHostnameAsFQDN does nothing on the host's network: the host name is the node's", "drop it, or hostNetwork")
	case pod.Subdomain == "":
		c.warn(CodeFQDNWithoutDomain, policy.EnforcedByNode, field,
			"setHostnameAsFQDN does nothing: the pods have no subdomain, so no FQDN",
			"set "+c.o.subdomainField()+" to the name of a headless Service")
	}
}

// checkOrdinalLimit warns of a StatefulSet whose names do not fit with one more digit in the
// ordinal. A request to scale it does not contain the StatefulSet, so that it cannot be checked.
func (c *check) checkOrdinalLimit() {
	host := c.host()
	ordinal := host[strings.LastIndexByte(host, '-')+1:]
	if c.o.Kind != kindStatefulSet || !c.o.Ordinal || len(host) > fqdn.MaxLabel || len(c.o.Name)+1+minRevisionHash > fqdn.MaxLabel {
		return
	}
	next := "1" + strings.Repeat("0", len(ordinal))
	host = strings.TrimSuffix(host, ordinal) + next
	kind, name, limit, hint := "host name", host, fqdn.MaxLabel, "shorten the name by 1"
	if c.wantsFQDN() && !c.unknown.ClusterDomain && len(host) <= fqdn.MaxLabel {
		kind, name, limit, hint = "FQDN", c.fqdn(host), fqdn.MaxNodename, c.shortenHint(1)
	}
	if len(name) != limit+1 { // it fits, or the shorter ordinals do not fit either
		return
	}
	c.warn(CodeOrdinalLimit, policy.EnforcedByDNSConfigurer, c.o.of("spec.replicas"),
		fmt.Sprintf("from ordinal %s on the %s %s would be %d characters, %d is the limit", next, kind, name, len(name), limit),
		"stay below that ordinal, or "+hint)
}
