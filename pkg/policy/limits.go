// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The kubelet's limits of a pod's resolv.conf.
const (
	MaxNameservers = 3            // MAXNS in resolv.h; k8s.io/kubernetes/pkg/apis/core/validation MaxDNSNameservers
	MaxSearches    = 32           // MaxDNSSearchPaths there; in the host's own file, three less for the cluster's domains
	MaxSearchLine  = 2048         // bytes of the domains joined by spaces; MaxDNSSearchListChars there
	MaxDomain      = fqdn.MaxName // bytes, with a trailing dot; longer domains made glibc 2.28 abort
)

// applyLimits is the rules L1 and L2, in the kubelet's order. An entry that one limit drops
// does not come back if a later limit drops other entries.
func (d *Decision) applyLimits() {
	before := len(d.Dropped)
	if len(d.Nameservers) > MaxNameservers {
		d.truncate(&d.Nameservers, MaxNameservers, RuleServerLimit)
		d.addStep(RuleServerLimit)
		field := limitField(KindNameserver, d.Dropped[before:])
		d.addFinding(Finding{
			Code: CodeServerLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " +
				strings.Join(d.Config().Nameservers, " "),
			Field: field, Hint: d.serverLimitHint(field),
		})
	}
	before = len(d.Dropped)
	if d.limitSearches() {
		d.addFinding(Finding{
			Code: CodeSearchLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " +
				strings.Join(d.Config().Searches, " "),
			Field: limitField(KindSearch, d.Dropped[before:]),
			Hint: fmt.Sprintf("use at most %d domains of %d bytes and %d bytes in total, including "+
				"those of the cluster and the host", MaxSearches, MaxDomain, MaxSearchLine),
		})
	}
}

// limitField returns the field to shorten when limits drop entries of a list: the pod's list if one
// of them is the pod's, otherwise the field of the first. A decision without findings has no dropped
// entries.
func limitField(list Kind, dropped []Entry) string {
	fromPod := func(e Entry) bool { return e.Source.Origin == FromPod }
	if len(dropped) == 0 || slices.ContainsFunc(dropped, fromPod) {
		return "spec.dnsConfig." + kinds[list].list
	}
	return dropped[0].field()
}

// serverLimitHint returns which nameservers to remove. With the policy None all are the pod's.
func (d *Decision) serverLimitHint(field string) string {
	advice := " and the node's come first: remove some, or use dnsPolicy None"
	switch {
	case field == FieldClusterDNS:
		advice = ", so the others are never used: remove them from the KubeletConfiguration"
	case field == FieldResolvConf:
		advice = ", so the others are never used: remove them from " + d.hostFile
	case slices.Contains(d.Steps, ruleBaseNone):
		advice = ", so the others are never used: remove them"
	}
	return fmt.Sprintf("a resolver queries at most %d servers%s", MaxNameservers, advice)
}

// limitSearches reports whether it dropped an entry.
func (d *Decision) limitSearches() bool {
	before := len(d.Searches)
	if before > MaxSearches {
		d.addStep(RuleSearchLimit)
		d.truncate(&d.Searches, MaxSearches, RuleSearchLimit)
	}

	if d.dropFunc(&d.Searches, RuleDomainTooLong, func(s *Entry, _ []Entry) bool { return len(s.Text) > MaxDomain }) {
		d.addStep(RuleDomainTooLong)
	}
	n := len(d.Searches)
	for length := joinedLen(d.Searches); length > MaxSearchLine; n-- {
		length -= len(d.Searches[n-1].Text) + 1
	}
	if n < len(d.Searches) {
		d.addStep(RuleSearchLineTooLong)
		d.truncate(&d.Searches, n, RuleSearchLineTooLong)
	}
	return len(d.Searches) < before
}

// truncate drops the entries of list after the first n.
func (d *Decision) truncate(list *[]Entry, n int, r Rule) {
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
