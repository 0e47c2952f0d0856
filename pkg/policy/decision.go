// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Decision is the DNS configuration and the host name of a pod, with the reason for every
// entry. It shares no memory with the Pod. Ignored shares memory with the File.
type Decision struct {
	// The entries of the pod's resolv.conf, in order.
	Nameservers []Entry
	Searches    []Entry
	Options     []Entry

	// Hostname is the kernel's host name in the pod. It is "" on the host's network,
	// where the pod has the node's, and if the kubelet refuses the name.
	Hostname string

	// FQDN is Hostname with the domain of spec.subdomain; "" without a subdomain.
	FQDN string

	// Error is the error with which the kubelet refuses to create the pod's sandbox; ""
	// if it creates the sandbox. If the kubelet refuses the host file, the three lists
	// are empty; if it refuses the host name, they are complete.
	Error string

	// Dropped holds the entries of the host's file, of the base and of the pod that are
	// not in the pod's resolv.conf, each with the rule that dropped it.
	Dropped []Entry

	// Ignored holds the lines and values of the host's file that the kubelet ignores
	// when it reads the file.
	Ignored []resolvconf.IgnoredEntry

	// Steps holds the rules that apply to the pod as a whole, in order.
	Steps []Rule

	// NodeRules holds the rules in Steps that node rules have applied, in order.
	NodeRules []AppliedRule

	// Findings is in the order in which the kubelet reports them. It has at most
	// MaxFindings with the same code; Finding.More counts the others.
	Findings []Finding

	hostFile string // path of the host's file, for messages
	path     string // Pod.Path
	kubelet  bool   // keep unsafe values, as a kubelet does, and record nothing
}

// Config returns the pod's resolv.conf.
func (d *Decision) Config() resolvconf.Config {
	all := make([]string, 0, len(d.Nameservers)+len(d.Searches)+len(d.Options))
	texts := func(entries []Entry) []string {
		from := len(all)
		for i := range entries {
			all = append(all, entries[i].Text)
		}
		return all[from:len(all):len(all)]
	}
	return resolvconf.Config{Nameservers: texts(d.Nameservers), Searches: texts(d.Searches), Options: texts(d.Options)}
}

// Starts reports whether the pod starts. It considers everything for which the kubelet
// refuses a pod, and those rules of the API server that concern dnsPolicy and the pod's
// name.
func (d *Decision) Starts() bool {
	for _, f := range d.Findings {
		if f.Severity == SeverityError && f.EnforcedBy != EnforcedByDNSConfigurer {
			return false
		}
	}
	return d.Error == ""
}

func (d *Decision) addStep(r Rule) { d.Steps = append(d.Steps, r) }

// addFinding adds f. It puts Pod.Path before a Field of the pod.
func (d *Decision) addFinding(f Finding) {
	if strings.HasPrefix(f.Field, "spec.") || strings.HasPrefix(f.Field, "metadata.annotations") {
		f.Field = d.path + f.Field // not metadata.name: a template has none
	}
	if !d.kubelet && !d.omitFinding(f.Code) {
		f.Message = excerpt.Text(f.Message, maxMessage)
		d.Findings = append(d.Findings, f)
	}
}

// omitFinding reports whether d has MaxFindings with this code already. It then counts one
// more.
func (d *Decision) omitFinding(code Code) bool { return omitFinding(d.Findings, code) }

func (d *Decision) drop(e Entry, r Rule) {
	if d.kubelet {
		return
	}
	e.Rule = r
	if n := len(d.Dropped); n == cap(d.Dropped) {
		// append grows by a quarter, which copies the 9 MB of 230,000 options four times
		d.Dropped = slices.Grow(d.Dropped, n+1)
	}
	d.Dropped = append(d.Dropped, e)
}

// list returns the list of the entries of kind k.
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
