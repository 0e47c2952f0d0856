// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

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
	if h := c.o.TemplateHostname; labelProblem(h) != "" {
		c.refuse(policy.CodeInvalidHostname, c.o.ofPod("spec.hostname"),
			fmt.Sprintf("host name %q %s", clip(h), labelProblem(h)), labelHint(h))
	}
	switch p := labelProblem(pod.Hostname); {
	case p == "":
	case !c.o.Ordinal:
		c.refuse(policy.CodeInvalidHostname, c.o.hostnameField(),
			fmt.Sprintf("host name %q %s", clip(pod.Hostname), p), labelHint(pod.Hostname))
	case validName:
		c.addGeneratedHostname(p)
	}
	if p := labelProblem(pod.Subdomain); p != "" {
		c.refuse(policy.CodeInvalidSubdomain, c.o.subdomainField(),
			fmt.Sprintf("subdomain %q %s", clip(pod.Subdomain), p), labelHint(pod.Subdomain))
	}
	if pod.HostnameOverride != nil {
		c.checkOverride(*pod.HostnameOverride)
	}
}

// addGeneratedHostname reports an invalid host name that a controller generates. The API
// server validates those of an Indexed Job, and refuses the Job. It accepts a CronJob, and a
// StatefulSet whose name is only too long with its ordinals; later it refuses the objects
// that they create, which only an event on the owner shows.
func (c *check) addGeneratedHostname(problem string) {
	message := fmt.Sprintf("the pods' host name %q %s", clip(c.o.Pod.Hostname), problem)
	if acceptedFirst(c.o) {
		message += "; the API server accepts the object and refuses what it creates"
	}
	c.refuse(CodeGeneratedHostname, c.o.hostnameField(), message, labelHint(c.o.Pod.Hostname))
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
	if c.o.Kind != kindStatefulSet || n <= maxRevisionName || labelProblem(c.o.Pod.Hostname) != "" {
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

// labelProblem returns why s is not a DNS label, or "". It returns "" for an empty s.
func labelProblem(s string) string {
	problems := fqdn.LabelProblems(s)
	switch {
	case s == "" || problems == nil:
		return ""
	case len(s) > fqdn.MaxLabel:
		return fmt.Sprintf("has %d characters, %d is the limit", len(s), fqdn.MaxLabel)
	case fqdn.SubdomainProblems(s) == nil:
		return "has dots, a DNS label has none"
	default:
		return "is not a DNS label"
	}
}

// labelHint returns how to make s a DNS label.
func labelHint(s string) string {
	if over := len(s) - fqdn.MaxLabel; over > 0 {
		return fmt.Sprintf("shorten it by %d", over)
	}
	return "use lower-case letters, digits and '-', with a letter or digit at both ends"
}

// acceptedFirst reports whether the API server accepts o, and later refuses the pods with the
// names that its controller generates. It validates a StatefulSet's name without the ordinal
// (apps/validation, ValidateStatefulSetName).
func acceptedFirst(o *Object) bool { return o.Kind == kindCronJob || o.Kind == kindStatefulSet }

// checkNode validates the name of a static pod's node, which its kubelet sets in spec.nodeName
// (validation.go, ValidateNodeName).
func (c *check) checkNode() {
	if n := c.o.Node; n != "" && fqdn.SubdomainProblems(n) != nil {
		c.refuse(CodeInvalidNodeName, "spec.nodeName",
			fmt.Sprintf("node name %q is not a DNS subdomain: the kubelet refuses its static pods", clip(n)),
			"register the node with a name in lower case")
	}
}

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
