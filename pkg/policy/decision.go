// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Decision is what a pod gets, and why. It shares no memory with the Pod that
// it was made for.
type Decision struct {
	// What the pod's resolv.conf holds, in order.
	Nameservers []Entry
	Searches    []Entry
	Options     []Entry

	// Hostname is the kernel's host name in the pod; "" on the host's network,
	// where it is the node's, and when Error says that there is none.
	Hostname string

	// FQDN is Hostname with the domain that spec.subdomain gives the pod; ""
	// without such a domain.
	FQDN string

	// Error is the kubelet's error when it would not make the pod's sandbox; ""
	// when it would. A refused host file leaves the three lists empty, a refused
	// host name leaves them as they are.
	Error string

	// Dropped lists the entries of the host's file, the base and the pod that the
	// pod does not get, each with the rule that says why. Facts of the node that
	// the policy has no use for are not entries.
	Dropped []Entry

	// Ignored are the lines and values of the host's file that the kubelet's
	// reader passes over. They belong to the File that was decided on.
	Ignored []resolvconf.IgnoredEntry

	// Steps are the rules that chose the way, in order.
	Steps []Rule

	// Findings in the order in which the kubelet would report them.
	Findings []Finding

	hostFile string // for people
	path     string // Pod.Path
}

// Config returns the resolv.conf of the pod.
func (d *Decision) Config() resolvconf.Config {
	all := make([]string, 0, len(d.Nameservers)+len(d.Searches)+len(d.Options))
	part := func(entries []Entry) []string {
		from := len(all)
		for i := range entries {
			all = append(all, entries[i].Text)
		}
		return all[from:len(all):len(all)]
	}
	return resolvconf.Config{Nameservers: part(d.Nameservers), Searches: part(d.Searches), Options: part(d.Options)}
}

// Starts tells whether the pod would start, as far as this package looks: at what
// the kubelet refuses, and of the API server's rules at the policy and the name.
func (d *Decision) Starts() bool {
	for _, f := range d.Findings {
		if f.Severity == SeverityError && f.EnforcedBy != EnforcedByDNSConfigurer {
			return false
		}
	}
	return d.Error == ""
}

func (d *Decision) step(r Rule) { d.Steps = append(d.Steps, r) }

// find adds f, whose field is a path from the pod.
func (d *Decision) find(f Finding) {
	if strings.HasPrefix(f.Field, "spec.") || strings.HasPrefix(f.Field, "metadata.annotations") {
		f.Field = d.path + f.Field // names and namespaces are the owner's
	}
	d.Findings = append(d.Findings, f)
}

func (d *Decision) drop(e Entry, r Rule) {
	e.Rule = r
	d.Dropped = append(d.Dropped, e)
}

// list returns the list that entries of kind k go to.
func (d *Decision) list(k Kind) *[]Entry {
	switch k {
	case KindNameserver:
		return &d.Nameservers
	case KindSearch:
		return &d.Searches
	default:
		return &d.Options
	}
}
