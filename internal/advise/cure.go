// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// minSaving is the number of queries a day from which on a change is worth a line, and minShare the divisor of
	// the workload's queries for the same.
	minSaving = 1000
	minShare  = 20

	// maxAbsentNames is the number of names that a line lists.
	maxAbsentNames = 3
)

// advice returns what the workload asks, and the changes that save queries.
func (w *workload) advice() v1alpha1.WorkloadAdvice {
	e := estimate(w.perDay)
	a := v1alpha1.WorkloadAdvice{
		Namespace: w.namespace, Kind: w.kind, Name: w.name, Pods: len(w.pods), QueriesPerDay: w.perDay.Queries,
		WastedPerDay: e.wasted, FailedPerDay: w.perDay.Failed, Cures: []v1alpha1.Cure{},
	}
	add := func(code string, saves uint64, text, patch string) {
		if saves >= minSaving && saves >= w.perDay.Queries/minShare {
			a.Cures = append(a.Cures, v1alpha1.Cure{Code: code, SavesPerDay: saves, Message: text, Patch: patch})
		}
	}
	add("absent-name", e.absent, w.absentText(), "")
	if w.hasLargeNdots() {
		add("ndots", e.twoDots, "names with two dots and more are tried with each search domain first: set ndots to 2", w.ndotsPatch())
	}
	add("final-dot", e.oneDot, "names with one dot, such as example.com, are tried with each search domain first: "+
		"write them with a final dot, or use autopath (docs/dns.md#autopath)", "")
	add("full-name", e.services, "Services of other namespaces are named without the cluster domain, and tried in the own "+
		"namespace first: write NAME.NAMESPACE.svc and the cluster domain, with a final dot", "")
	slices.SortStableFunc(a.Cures, func(x, y v1alpha1.Cure) int { return cmp.Compare(y.SavesPerDay, x.SavesPerDay) })
	for _, c := range a.Cures {
		a.SavesPerDay += c.SavesPerDay
	}
	return a
}

// estimated is what queries a day are for. The parts do not overlap.
type estimated struct {
	wasted   uint64 // for names that a search list made, and that do not exist
	absent   uint64 // for names that do not exist with any search domain, and as they are
	twoDots  uint64 // with search domains, for names with two dots or more that exist
	oneDot   uint64 // the same with one dot
	services uint64 // below svc, for Services that another search domain has
}

// estimate derives what queries are for. A resolver asks with the search domains in their order: NAMESPACE.svc.DOMAIN,
// svc.DOMAIN, DOMAIN, and those of the node. So a name directly below the cluster domain stands for a lookup that
// went through all of them, whose name may exist as it is; and below svc it was asked for twice.
func estimate(c dnsserver.ClientCounts) (e estimated) {
	atLeast := func(counts [dnsserver.MaxDots]uint64, dots int) (sum uint64) {
		for _, n := range counts[dots:] {
			sum += n
		}
		return sum
	}
	all, host := atLeast(c.AbsentCluster, 0), atLeast(c.AbsentHost, 0)
	service := min(c.AbsentService, 2*all) // of lookups that went through all
	e.services = c.AbsentService - service
	e.wasted = c.AbsentService + all + host
	if all == 0 {
		e.absent = c.Absent
		return e
	}
	perLookup := float64(all+service+host) / float64(all)
	dotted, long := atLeast(c.AbsentCluster, 1), atLeast(c.AbsentCluster, 2)
	short := c.AbsentCluster[0]
	// A name without a dot is a Service: as it is, the root does not have it. Of the other names some do not exist
	// as they are, either; they are taken to have as many dots as the others.
	absentDotted := min(c.Absent-min(c.Absent, short), dotted)
	e.absent = c.Absent + uint64(perLookup*float64(short+absentDotted))
	if dotted > 0 {
		found := float64(dotted-absentDotted) / float64(dotted)
		e.twoDots = uint64(perLookup * found * float64(long))
		e.oneDot = uint64(perLookup * found * float64(dotted-long))
	}
	return e
}

func (w *workload) absentText() string {
	const absent = "names that do not exist are looked up again and again: "
	names := byCount(w.names)
	if len(names) == 0 {
		return absent + "clientStatistics: names in the configuration of the servers shows which"
	}
	return absent + strings.Join(names[:min(len(names), maxAbsentNames)], ", ")
}

// byCount returns names, the most frequent first.
func byCount(names map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), strings.Compare(a, b))
	})
}

const (
	ndotsOption = "ndots"
	wantedNdots = 2 // NAME.NAMESPACE has one dot
)

// hasLargeNdots reports whether ndots is larger than necessary. Without the option it is 5 with ClusterFirst, and 1
// otherwise.
func (w *workload) hasLargeNdots() bool {
	if c := w.pod.Spec.DNSConfig; c != nil {
		for _, o := range c.Options {
			if o.Name == ndotsOption && o.Value != nil {
				n, err := strconv.Atoi(*o.Value)
				return err == nil && n > wantedNdots
			}
		}
	}
	return w.pod.Spec.DNSPolicy == corev1.DNSClusterFirst || w.pod.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet
}

// ndotsPatch returns a command that sets ndots in the template of the workload, or "" if it has none that can be
// changed. A patch replaces the list of options.
func (w *workload) ndotsPatch() string {
	if !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, w.kind) {
		return ""
	}
	if fqdn.SubdomainProblems(w.name) != nil {
		return "" // the API accepts every text as the name of an owner, such as one with commands for a shell
	}
	var options []corev1.PodDNSConfigOption
	if c := w.pod.Spec.DNSConfig; c != nil {
		options = slices.DeleteFunc(slices.Clone(c.Options), func(o corev1.PodDNSConfigOption) bool { return o.Name == ndotsOption })
	}
	value := strconv.Itoa(wantedNdots)
	options = append(options, corev1.PodDNSConfigOption{Name: ndotsOption, Value: &value})
	list, err := json.Marshal(options)
	if err != nil {
		return "" // not reached: the options are strings
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"dnsConfig":{"options":%s}}}}}`, list)
	return fmt.Sprintf("kubectl patch %s %s -n %s -p '%s'", strings.ToLower(w.kind), w.name, w.namespace,
		strings.ReplaceAll(patch, "'", `'\''`))
}
