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

// checkHostnames applies rule V4: the host names that the API server refuses.
func (c *check) checkHostnames() {
	pod := &c.o.Pod
	if p := labelProblem(pod.Hostname); p != "" && c.o.Ordinal {
		c.addGeneratedHostname(p)
	} else if p != "" {
		c.refuse(policy.CodeInvalidHostname, c.o.hostnameField(), fmt.Sprintf("host name %q %s", clip(pod.Hostname), p), labelHint(pod.Hostname))
	}
	if p := labelProblem(pod.Subdomain); p != "" {
		c.refuse(policy.CodeInvalidSubdomain, c.o.subdomainField(), fmt.Sprintf("subdomain %q %s", clip(pod.Subdomain), p), labelHint(pod.Subdomain))
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

// acceptedFirst reports whether the API server accepts o although it refuses the pods with
// the generated names later. It validates a StatefulSet's name without the ordinal
// (apps/validation, ValidateStatefulSetName).
func acceptedFirst(o *Object) bool {
	return o.Kind == kindCronJob || o.Kind == kindStatefulSet && labelProblem(o.Name) == ""
}

// checkOverride applies rule V4 to hostnameOverride (validation.go, validatePodHostName).
func (c *check) checkOverride(override string) {
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
