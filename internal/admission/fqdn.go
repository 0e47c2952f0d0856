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
// ordinal. A request to scale it does not contain the StatefulSet, and only the webhook checks such
// requests.
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
