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

// The limits that the kubelet holds every pod's resolv.conf to.
const (
	MaxNameservers = 3            // MAXNS in resolv.h; k8s.io/kubernetes/pkg/apis/core/validation MaxDNSNameservers
	MaxSearches    = 32           // MaxDNSSearchPaths there; in the node's file, less the cluster's three
	MaxSearchLine  = 2048         // bytes of the domains joined by blanks; MaxDNSSearchListChars there
	MaxDomain      = fqdn.MaxName // bytes, a trailing dot counts; longer ones made glibc 2.28 abort
)

// fit is rules L1 and L2, in the kubelet's order. What one step cuts does not come
// back when a later one makes room.
func (d *Decision) fit() {
	if len(d.Nameservers) > MaxNameservers {
		d.cut(&d.Nameservers, MaxNameservers, RuleServerLimit)
		d.step(RuleServerLimit)
		d.find(Finding{
			Code: CodeServerLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " + join(d.Nameservers),
			Field:   "spec.dnsConfig.nameservers",
			Hint:    fmt.Sprintf("a resolver queries at most %d servers and the node's come first: remove some, or use dnsPolicy None", MaxNameservers),
		})
	}
	if d.fitSearches() {
		d.find(Finding{
			Code: CodeSearchLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + join(d.Searches),
			Field:   "spec.dnsConfig.searches",
			Hint:    fmt.Sprintf("use at most %d domains of %d bytes and %d bytes in total, including those of the cluster and the host", MaxSearches, MaxDomain, MaxSearchLine),
		})
	}
}

// fitSearches reports whether it took anything away.
func (d *Decision) fitSearches() bool {
	before := len(d.Searches)
	if before > MaxSearches {
		d.step(RuleSearchLimit)
		d.cut(&d.Searches, MaxSearches, RuleSearchLimit)
	}

	within := len(d.Searches)
	d.dropEach(&d.Searches, RuleDomainTooLong, func(s *Entry, _ []Entry) bool { return len(s.Text) > MaxDomain })
	if len(d.Searches) < within {
		d.step(RuleDomainTooLong)
	}

	n := len(d.Searches)
	for length := joinedLen(d.Searches); length > MaxSearchLine; n-- {
		length -= len(d.Searches[n-1].Text) + 1
	}
	if n < len(d.Searches) {
		d.step(RuleSearchLineTooLong)
		d.cut(&d.Searches, n, RuleSearchLineTooLong)
	}
	return len(d.Searches) < before
}

// cut shortens list to its first n entries.
func (d *Decision) cut(list *[]Entry, n int, r Rule) {
	for _, e := range (*list)[n:] {
		d.drop(e, r)
	}
	*list = (*list)[:n]
}

func joinedLen(entries []Entry) int {
	n := max(0, len(entries)-1)
	for i := range entries {
		n += len(entries[i].Text)
	}
	return n
}

func join(entries []Entry) string {
	var b strings.Builder
	for i := range entries {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(entries[i].Text)
	}
	return b.String()
}

// CheckHost is rule L4, which the kubelet applies to its own file once, when it
// starts: the first problem, in its words and with the reason of its event. After it
// come servers that no pod reaches, of which the kubelet says nothing. host is the
// file that Decide is given; nothing is checked on a node without one.
func (e *Engine) CheckHost(host resolvconf.File) []Finding {
	if e.node.ResolvConf == "" {
		return nil
	}
	path := e.nameOf(host)
	searches := MaxSearches
	if e.node.ClusterDomain != "" {
		searches -= 3 // namespace, svc and the cluster domain itself
	}
	longest, length := 0, max(0, len(host.Searches)-1)
	for _, s := range host.Searches {
		longest = max(longest, len(s.Text))
		length += len(s.Text)
	}
	severity, message := SeverityWarning, ""
	switch {
	case host.Err != nil:
		severity, message = SeverityError, host.Err.Error() // the kubelet starts no pod
		if parse, ok := errors.AsType[*resolvconf.ParseError](host.Err); ok {
			message = parse.Err.Error()
		}
	case len(host.Searches) > searches:
		message = fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, searches)
	case longest > MaxDomain:
		message = fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, MaxDomain)
	case length > MaxSearchLine:
		message = fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, MaxSearchLine)
	}
	var found []Finding
	if message != "" {
		found = append(found, Finding{
			Code: CodeNodeHostFile, Severity: severity, EnforcedBy: EnforcedByNode, Reason: reasonHostFile,
			Message: message, Field: FieldResolvConf, Hint: "correct " + path + " on the node",
		})
	}
	for _, s := range host.Nameservers {
		if staysOnNode(s.Text) {
			found = append(found, Finding{
				Code: CodeLoopbackServer, Severity: SeverityWarning, EnforcedBy: EnforcedByDNSConfigurer,
				Message: fmt.Sprintf("%s:%d: nameserver %s is an address of the node, unreachable from the pod network", path, s.Line, s.Text),
				Field:   FieldResolvConf,
				Hint:    "with systemd-resolved set resolvConf to /run/systemd/resolve/resolv.conf",
			})
		}
	}
	return found
}
