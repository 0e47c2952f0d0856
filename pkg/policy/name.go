// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// name is rules N1 to N7: the host name and the FQDN, or the kubelet's error. On
// the host's network the sandbox gets no name and no error; the kubelet meets a
// bad name only at the containers, and starts none of them.
func (e *Engine) name(d *Decision, pod *Pod) {
	if pod.HostNetwork {
		d.step(ruleHostnameOfNode)
		if _, _, refused := e.names(&Decision{}, pod); refused != nil {
			d.find(*refused)
		}
		return
	}
	host, domain, refused := e.names(d, pod)
	if refused == nil && domain != "" {
		d.FQDN = host + "." + domain
		if pod.SetHostnameAsFQDN {
			d.step(ruleHostnameIsFQDN)
			host, refused = d.FQDN, tooLongFQDN(d.FQDN)
		}
	}
	if refused != nil {
		d.step(ruleHostnameRefused)
		d.FQDN = ""
		d.refuse(refused.Code, refused.Field, refused.Message, refused.Hint)
		return
	}
	d.Hostname = host
}

// names returns the short host name and the domain of pod, or the finding with
// the kubelet's error text.
func (e *Engine) names(d *Decision, pod *Pod) (host, domain string, refused *Finding) {
	host, field := pod.Name, "metadata.name"
	switch {
	case pod.HostnameOverride != nil:
		field = "spec.hostnameOverride"
		d.step(ruleHostnameOverridden)
		host = *pod.HostnameOverride
		if p := fqdn.SubdomainProblems(host); p != nil {
			return "", "", badName(CodeInvalidOverride, "spec.hostnameOverride",
				fmt.Sprintf("pod HostnameOverride %q is not a valid DNS subdomain: %s", host, strings.Join(p, ";")))
		}
	case pod.Hostname != "":
		d.step(ruleHostnameField)
		host = pod.Hostname
		if p := fqdn.LabelProblems(host); p != nil {
			return "", "", badName(CodeInvalidHostname, "spec.hostname",
				fmt.Sprintf("pod Hostname %q is not a valid DNS label: %s", host, strings.Join(p, ";")))
		}
	default:
		d.step(ruleHostnameOfPod)
	}
	host, refused = d.cutHostname(pod, host, field)
	if refused != nil || pod.HostnameOverride != nil || pod.Subdomain == "" {
		return host, "", refused
	}
	d.step(ruleDomainOfSubdomain)
	if p := fqdn.LabelProblems(pod.Subdomain); p != nil {
		return "", "", badName(CodeInvalidSubdomain, "spec.subdomain",
			fmt.Sprintf("pod Subdomain %q is not a valid DNS label: %s", pod.Subdomain, strings.Join(p, ";")))
	}
	return host, pod.Subdomain + "." + pod.Namespace + "." + e.svcDomain, nil
}

// cutHostname is rule N4.
func (d *Decision) cutHostname(pod *Pod, host, field string) (string, *Finding) {
	cut := fqdn.CutHostname(host)
	if len(cut) == len(host) {
		return host, nil
	}
	d.step(ruleHostnameCut)
	if cut == "" {
		return "", badName(CodeInvalidHostname, field, fmt.Sprintf("hostname for pod %q was invalid: %q", pod.Name, host))
	}
	d.find(Finding{
		Code: CodeHostnameCut, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
		Message: fmt.Sprintf("the host name is truncated from %d bytes to %q, shared by pods whose names start alike", len(host), cut),
		Field:   field,
		Hint:    fmt.Sprintf("shorten it by %d, or set spec.hostname", len(host)-fqdn.MaxHostname),
	})
	return cut, nil
}

func badName(code Code, field, message string) *Finding {
	return &Finding{
		Code: code, Severity: SeverityError, EnforcedBy: EnforcedByNode,
		Message: message, Field: field,
		Hint: "use lower-case letters, digits and '-', with a letter or digit at both ends",
	}
}

// tooLongFQDN is rule N6; nil for a name that fits.
func tooLongFQDN(name string) *Finding {
	over := len(name) - fqdn.MaxNodename
	if over <= 0 {
		return nil
	}
	return &Finding{
		Code: CodeFQDNTooLong, Field: "spec.setHostnameAsFQDN",
		Message: fmt.Sprintf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			name, fqdn.MaxNodename, len(name)),
		Hint: fmt.Sprintf("shorten the host name, the subdomain or the namespace by %d, or drop setHostnameAsFQDN", over),
	}
}
