// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// maxOverride is the longest hostnameOverride that the API server accepts, in bytes
// (validation.go, validatePodHostName). The kubelet cuts it to one less.
const maxOverride = 64

// hostnames is V4: what the API server refuses in the names of hosts.
func (c *check) hostnames() {
	pod := &c.o.Pod
	if p := labelProblem(pod.Hostname); p != "" && c.o.Ordinal {
		c.generatedHostname(p)
	} else if p != "" {
		c.refuse(policy.CodeInvalidHostname, c.o.hostnameField(), fmt.Sprintf("host name %q %s", clip(pod.Hostname), p), labelHint(pod.Hostname))
	}
	if p := labelProblem(pod.Subdomain); p != "" {
		c.refuse(policy.CodeInvalidSubdomain, c.o.subdomainField(), fmt.Sprintf("subdomain %q %s", clip(pod.Subdomain), p), labelHint(pod.Subdomain))
	}
	if pod.HostnameOverride != nil {
		c.hostnameOverride(*pod.HostnameOverride)
	}
}

// generatedHostname: the API server looks at the name that an Indexed Job gives to its
// pods, and refuses the Job. A CronJob, and a StatefulSet that only its ordinals make too
// long, it accepts; later it refuses what they make, and only an event on the owner tells.
func (c *check) generatedHostname(problem string) {
	message := fmt.Sprintf("the pods' host name %q %s", clip(c.o.Pod.Hostname), problem)
	if acceptedFirst(c.o) {
		message += "; the API server accepts the object and refuses what it creates"
	}
	c.refuse(CodeGeneratedHostname, c.o.hostnameField(), message, labelHint(c.o.Pod.Hostname))
}

// labelProblem says what keeps s from being a DNS label; "" for a label, and for no
// name at all.
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

// labelHint says how to make s a label.
func labelHint(s string) string {
	if over := len(s) - fqdn.MaxLabel; over > 0 {
		return fmt.Sprintf("shorten it by %d", over)
	}
	return "use lower-case letters, digits and '-', with a letter or digit at both ends"
}

// acceptedFirst tells whether the API server takes o without a look at the names of
// the pods that it will make. Of a StatefulSet it looks at the name without the ordinal
// (apps/validation, ValidateStatefulSetName).
func acceptedFirst(o *Object) bool {
	return o.Kind == kindCronJob || o.Kind == kindStatefulSet && labelProblem(o.Name) == ""
}

// hostnameOverride is the rest of V4 (validation.go, validatePodHostName).
func (c *check) hostnameOverride(override string) {
	field := c.o.ofPod("spec.hostnameOverride")
	if c.o.Pod.SetHostnameAsFQDN {
		c.refuse(CodeOverrideConflict, field, "hostnameOverride and setHostnameAsFQDN: true exclude each other", "drop one of them")
	}
	if c.o.Pod.HostNetwork {
		c.refuse(CodeOverrideConflict, field, "hostnameOverride and hostNetwork: true exclude each other", "drop hostnameOverride: the host name is the node's")
	}
	if over := len(override) - maxOverride; over > 0 {
		c.refuse(policy.CodeInvalidOverride, field,
			fmt.Sprintf("hostnameOverride has %d characters, %d is the limit of the API server, %d of the node", len(override), maxOverride, fqdn.MaxHostname),
			fmt.Sprintf("shorten it by %d", len(override)-fqdn.MaxHostname))
	}
	if fqdn.SubdomainProblems(override) != nil && len(override) <= maxOverride {
		c.refuse(policy.CodeInvalidOverride, field, fmt.Sprintf("hostnameOverride %q is not a DNS subdomain", override),
			"use lower-case letters, digits, '-' and '.', with a letter or digit at both ends")
	}
}
