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

// fqdn returns the name that the kubelet would give to a pod with this short host
// name (rule N5 of docs/rules.md).
func (c *check) fqdn(host string) string {
	return host + "." + c.o.Pod.Subdomain + "." + c.o.Pod.Namespace + ".svc." + c.domain
}

// host is the short host name of the pods, before it is cut.
func (c *check) host() string {
	if c.o.Pod.Hostname != "" {
		return c.o.Pod.Hostname
	}
	return c.o.Pod.Name
}

// wantsFQDN tells whether the kubelet makes the FQDN the host name (rule N6).
func (c *check) wantsFQDN() bool {
	pod := &c.o.Pod
	return pod.SetHostnameAsFQDN && !pod.HostNetwork && pod.HostnameOverride == nil && pod.Subdomain != ""
}

// fqdnTooLong is rule N6: such a pod stays pending for ever (KEP-1797).
func (c *check) fqdnTooLong() {
	name := c.fqdn(fqdn.CutHostname(c.host()))
	c.add(policy.Finding{
		Code: policy.CodeFQDNTooLong, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
		Message: fmt.Sprintf("FQDN %s would be %d characters, %d is the limit", name, len(name), fqdn.MaxNodename),
		Field:   c.o.ofPod("spec.setHostnameAsFQDN"),
		Hint:    c.shorten(len(name)-fqdn.MaxNodename) + ", or drop setHostnameAsFQDN",
	})
}

// shorten names the parts of the FQDN each of which can be shortened by over; all of
// them when none can alone.
func (c *check) shorten(over int) string {
	parts := []struct{ name, text string }{{"name", c.o.Name}, {"subdomain", c.o.Pod.Subdomain}, {"namespace", c.o.Pod.Namespace}}
	if !c.o.Ordinal && c.o.Pod.Hostname != "" {
		parts[0] = struct{ name, text string }{"host name", c.o.Pod.Hostname}
	}
	if c.o.Kind == kindStatefulSet {
		parts[1].name = "service name"
	}
	by := "by "
	if len(c.host()) >= fqdn.MaxHostname { // it was cut, and of the part cut off nothing is gained
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

// fqdnWithoutDomain: without a domain there is no FQDN, and the flag does nothing
// (rules N1 and N6).
func (c *check) fqdnWithoutDomain() {
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
			"setHostnameAsFQDN does nothing: the pods have no subdomain, so no FQDN", "set "+c.o.subdomainField()+" to the name of a headless Service")
	}
}

// ordinalLimit warns of a StatefulSet whose next longer ordinal does not fit: whoever
// scales it up, by hand or by an autoscaler, does not see this object, and without the
// webhook none of our rules.
func (c *check) ordinalLimit() {
	host := c.host()
	ordinal := host[strings.LastIndexByte(host, '-')+1:]
	if c.o.Kind != kindStatefulSet || !c.o.Ordinal || len(host) > fqdn.MaxLabel {
		return
	}
	next := "1" + strings.Repeat("0", len(ordinal))
	host = strings.TrimSuffix(host, ordinal) + next
	what, name, limit, hint := "host name", host, fqdn.MaxLabel, "shorten the name by 1"
	if c.wantsFQDN() && len(host) <= fqdn.MaxLabel {
		what, name, limit, hint = "FQDN", c.fqdn(host), fqdn.MaxNodename, c.shorten(1)
	}
	if len(name) != limit+1 { // it fits, or those that are there do not either
		return
	}
	c.warn(CodeOrdinalLimit, policy.EnforcedByDNSConfigurer, c.o.of("spec.replicas"),
		fmt.Sprintf("from ordinal %s on the %s %s would be %d characters, %d is the limit", next, what, name, len(name), limit),
		"stay below that ordinal, or "+hint)
}
