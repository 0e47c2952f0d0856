// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

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
	var found []Finding
	if severity, message := e.kubeletCheck(path, host); message != "" {
		found = append(found, Finding{
			Code: CodeNodeHostFile, Severity: severity, EnforcedBy: EnforcedByNode, Reason: reasonHostFile,
			Message: message, Field: FieldResolvConf, Hint: "correct " + path + " on the node",
		})
	}
	for _, s := range host.Nameservers {
		if p := addressProblem(s.Text); p != "" && !omitFinding(found, CodeLoopbackServer) {
			found = append(found, Finding{
				Code: CodeLoopbackServer, Severity: SeverityWarning, EnforcedBy: EnforcedByDNSConfigurer,
				Message: fmt.Sprintf("%s:%d: nameserver %s %s", path, s.Line, s.Text, p),
				Field:   FieldResolvConf,
				Hint:    "with systemd-resolved set resolvConf to /run/systemd/resolve/resolv.conf",
			})
		}
	}
	if n := len(host.Nameservers); n > MaxNameservers {
		found = append(found, Finding{
			Code: CodeServerLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode,
			Message: fmt.Sprintf("%s:%d: %d nameservers: pods get the first %d", path,
				host.Nameservers[MaxNameservers].Line, n, MaxNameservers),
			Field: FieldResolvConf, Hint: "remove some: C libraries use no more than the first, too",
		})
	}
	for k, list := range [...][]resolvconf.Entry{host.Nameservers, host.Searches, host.Options} {
		for _, entry := range list {
			if kind := Kind(k); isUnsafe(kind, entry.Text) && !omitFinding(found, CodeUnsafeValue) {
				found = append(found, Finding{
					Code: CodeUnsafeValue, Severity: SeverityWarning, EnforcedBy: EnforcedByDNSConfigurer,
					Message: fmt.Sprintf("%s:%d: %s", path, entry.Line, unsafeMessage(kind, entry.Text)),
					Field:   FieldResolvConf,
					Hint:    "correct " + path + " on the node",
				})
			}
		}
	}
	return found
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
