// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// setHostname is the rules N1 to N7: it sets the host name and the FQDN, or the kubelet's
// error. On the host's network the sandbox gets neither name nor error; there the kubelet
// checks the name when it starts the containers, and starts none if it is invalid.
func (e *Engine) setHostname(d *Decision, pod *Pod) {
	if pod.HostNetwork {
		d.addStep(ruleHostnameOfNode)
		if _, _, refused := e.hostnameAndDomain(&Decision{}, pod); refused != nil {
			d.addFinding(*refused)
		}
		return
	}
	host, domain, refused := e.hostnameAndDomain(d, pod)
	if refused == nil && domain != "" {
		d.FQDN = host + "." + domain
		if pod.SetHostnameAsFQDN {
			d.addStep(ruleHostnameIsFQDN)
			host, refused = d.FQDN, fqdnTooLong(d.FQDN)
		}
	}
	if refused != nil {
		d.addStep(ruleHostnameRefused)
		d.FQDN = ""
		d.refuse(refused.Code, refused.Field, refused.Message, refused.Hint)
		return
	}
	d.Hostname = host
}

// hostnameAndDomain returns the short host name and the domain of pod, or a finding with the
// kubelet's error.
func (e *Engine) hostnameAndDomain(d *Decision, pod *Pod) (host, domain string, refused *Finding) {
	host, field := pod.Name, "metadata.name"
	switch {
	case pod.HostnameOverride != nil:
		field = "spec.hostnameOverride"
		d.addStep(ruleHostnameOverridden)
		host = *pod.HostnameOverride
		if p := fqdn.SubdomainProblems(host); p != nil {
			return "", "", invalidName(CodeInvalidOverride, "spec.hostnameOverride",
				fmt.Sprintf("pod HostnameOverride %q is not a valid DNS subdomain: %s", host, strings.Join(p, ";")))
		}
	case pod.Hostname != "":
		d.addStep(ruleHostnameField)
		host = pod.Hostname
		if p := fqdn.LabelProblems(host); p != nil {
			return "", "", invalidName(CodeInvalidHostname, "spec.hostname",
				fmt.Sprintf("pod Hostname %q is not a valid DNS label: %s", host, strings.Join(p, ";")))
		}
	default:
		d.addStep(ruleHostnameOfPod)
	}
	host, refused = d.truncateHostname(pod, host, field)
	if refused != nil || pod.HostnameOverride != nil || pod.Subdomain == "" {
		return host, "", refused
	}
	d.addStep(ruleDomainOfSubdomain)
	if p := fqdn.LabelProblems(pod.Subdomain); p != nil {
		return "", "", invalidName(CodeInvalidSubdomain, "spec.subdomain",
			fmt.Sprintf("pod Subdomain %q is not a valid DNS label: %s", pod.Subdomain, strings.Join(p, ";")))
	}
	return host, pod.Subdomain + "." + pod.Namespace + "." + e.svcDomain, nil
}

// truncateHostname is rule N4.
func (d *Decision) truncateHostname(pod *Pod, host, field string) (string, *Finding) {
	truncated := fqdn.CutHostname(host)
	if len(truncated) == len(host) {
		return host, nil
	}
	d.addStep(ruleHostnameCut)
	if truncated == "" {
		return "", invalidName(CodeInvalidHostname, field, fmt.Sprintf("hostname for pod %q was invalid: %q", pod.Name, host))
	}
	d.report(SeverityWarning, EnforcedByNode, CodeHostnameCut, field,
		fmt.Sprintf("the host name is truncated from %d bytes to %q, shared by pods whose names start alike", len(host), truncated),
		fmt.Sprintf("shorten it by %d, or set spec.hostname", len(host)-fqdn.MaxHostname))
	return truncated, nil
}

func invalidName(code Code, field, message string) *Finding {
	return &Finding{
		Code: code, Severity: SeverityError, EnforcedBy: EnforcedByNode,
		Message: message, Field: field,
		Hint: "use lower-case letters, digits and '-', with a letter or digit at both ends",
	}
}

// fqdnTooLong is rule N6; it returns nil if name is short enough.
func fqdnTooLong(name string) *Finding {
	excess := len(name) - fqdn.MaxNodename
	if excess <= 0 {
		return nil
	}
	return &Finding{
		Code: CodeFQDNTooLong, Field: "spec.setHostnameAsFQDN",
		Message: fmt.Sprintf("failed to construct FQDN from pod hostname and cluster domain, FQDN "+
			"%s is too long (%d characters is the max, %d characters requested)",
			name, fqdn.MaxNodename, len(name)),
		Hint: fmt.Sprintf("shorten the host name, the subdomain or the namespace by %d, or drop setHostnameAsFQDN", excess),
	}
}

// CheckHost returns the findings about the host's resolv.conf itself, without any pod. The
// first may be rule L4: the kubelet checks its file once when it starts and sends an event
// about the first problem. The others are about what the kubelet does not check: nameservers
// that pods cannot reach or do not get, and unsafe values.
//
// host is the file for Decide. If Node.ResolvConf is "", there are no findings.
func (e *Engine) CheckHost(host resolvconf.File) []Finding {
	if e.node.ResolvConf == "" {
		return nil
	}
	path := e.hostFilePath(host)
	correct := "correct " + path + " on the node"
	var d Decision
	if severity, message := e.kubeletCheck(path, host); message != "" {
		d.addFinding(Finding{
			Code: CodeNodeHostFile, Severity: severity, EnforcedBy: EnforcedByNode, Reason: reasonHostFile,
			Message: message, Field: FieldResolvConf, Hint: correct,
		})
	}
	at := func(line int, format string, args ...any) string {
		return fmt.Sprintf("%s:%d: ", path, line) + fmt.Sprintf(format, args...)
	}
	for _, s := range host.Nameservers {
		if p := addressProblem(s.Text); p != "" {
			d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeLoopbackServer, FieldResolvConf,
				at(s.Line, "nameserver %s %s", s.Text, p), "with systemd-resolved set resolvConf to /run/systemd/resolve/resolv.conf")
		}
	}
	if n := len(host.Nameservers); n > MaxNameservers {
		d.report(SeverityWarning, EnforcedByNode, CodeServerLimit, FieldResolvConf,
			at(host.Nameservers[MaxNameservers].Line, "%d nameservers: pods get the first %d", n, MaxNameservers),
			"remove some: C libraries use no more than the first, too")
	}
	for k, list := range [...][]resolvconf.Entry{host.Nameservers, host.Searches, host.Options} {
		for _, entry := range list {
			if kind := Kind(k); isUnsafe(kind, entry.Text) {
				d.report(SeverityWarning, EnforcedByDNSConfigurer, CodeUnsafeValue, FieldResolvConf,
					at(entry.Line, "%s", unsafeMessage(kind, entry.Text)), correct)
			}
		}
	}
	return d.Findings
}

// kubeletCheck returns the message of the kubelet's event about its own file, or "" if the
// kubelet sends none.
func (e *Engine) kubeletCheck(path string, host resolvconf.File) (Severity, string) {
	searches := MaxSearches
	if e.node.ClusterDomain != "" {
		searches -= 3 // namespace, svc and the cluster domain itself
	}
	longest, length := 0, max(0, len(host.Searches)-1)
	for _, s := range host.Searches {
		longest = max(longest, len(s.Text))
		length += len(s.Text)
	}
	switch {
	case host.Err != nil: // the kubelet starts no pod
		if parse, ok := errors.AsType[*resolvconf.ParseError](host.Err); ok {
			return SeverityError, parse.Err.Error()
		}
		return SeverityError, host.Err.Error()
	case len(host.Searches) > searches:
		return SeverityWarning,
			fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, searches)
	case longest > MaxDomain:
		return SeverityWarning,
			fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, MaxDomain)
	case length > MaxSearchLine:
		return SeverityWarning,
			fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, MaxSearchLine)
	}
	return "", ""
}
