// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
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

	// minWindow is the shortest time that is extrapolated to a day: a pod that has just started asks for more
	// names than later.
	minWindow = time.Minute

	day = 24 * time.Hour
)

// ClientSource is the report of a DNS server.
type ClientSource struct {
	Address netip.Addr // of the pod of the server
	Report  dnsserver.ClientReport
	Refused uint64 // queries that the server refused since its start, because it or its upstream servers were at a limit
}

// Advise returns the workloads that ask the servers, those that can save most first. Pods are all pods of the
// cluster, or those of a namespace.
func Advise(sources []ClientSource, pods []corev1.Pod) v1alpha1.AdviseResult {
	r := v1alpha1.AdviseResult{Servers: len(sources), Workloads: []v1alpha1.WorkloadAdvice{}}
	byAddress := podsByAddress(pods)
	servers := map[netip.Addr]bool{} // a node cache is a client of the cluster DNS
	for _, s := range sources {
		servers[s.Address] = true
	}
	found := map[id]*workload{}
	for _, s := range sources {
		r.Hours = max(r.Hours, s.Report.Until.Sub(s.Report.Since).Hours())
		others := s.Report.Others
		for _, c := range s.Report.Clients {
			switch pod := byAddress[c.Address]; {
			case servers[c.Address]:
			case pod == nil:
				others.Add(c.ClientCounts)
			default:
				workloadOf(found, pod).add(pod, c.ClientCounts, s.Report)
			}
		}
		r.OthersPerDay += perDay(others, s.Report.Until.Sub(s.Report.Since)).Queries
		for _, n := range s.Report.Names {
			if pod := byAddress[n.Address]; pod != nil && n.Absent && !servers[n.Address] {
				w := workloadOf(found, pod)
				w.names[n.Name] += n.Queries - n.Error
			}
		}
	}
	for _, w := range found {
		r.QueriesPerDay += w.perDay.Queries
		r.Workloads = append(r.Workloads, w.advice())
	}
	slices.SortFunc(r.Workloads, func(a, b v1alpha1.WorkloadAdvice) int {
		return cmp.Or(cmp.Compare(b.SavesPerDay, a.SavesPerDay), cmp.Compare(b.QueriesPerDay, a.QueriesPerDay),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// podsByAddress returns the pods that have an address of their own.
func podsByAddress(pods []corev1.Pod) map[netip.Addr]*corev1.Pod {
	byAddress := map[netip.Addr]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue // another pod may have the address now
		}
		for _, ip := range p.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil {
				byAddress[addr.Unmap()] = p
			}
		}
	}
	return byAddress
}

// workload is a controller of pods, or a pod without one.
type workload struct {
	id
	pod    *corev1.Pod // the newest of its pods, which has the present settings
	pods   map[string]bool
	perDay dnsserver.ClientCounts
	names  map[string]uint64 // that do not exist, with their queries
}

// workloadOf returns the workload of a pod, which it adds to found.
func workloadOf(found map[id]*workload, pod *corev1.Pod) *workload {
	kind, name := kube.Controller(pod)
	key := id{pod.Namespace, cmp.Or(kind, "Pod"), cmp.Or(name, pod.Name)}
	if found[key] == nil {
		found[key] = &workload{id: key, pod: pod, pods: map[string]bool{}, names: map[string]uint64{}}
	}
	return found[key]
}

// id names a workload: the object whose template has the DNS settings of a pod.
type id struct{ namespace, kind, name string }

// add adds the queries of a pod, extrapolated to a day.
func (w *workload) add(pod *corev1.Pod, counts dnsserver.ClientCounts, r dnsserver.ClientReport) {
	since := r.Since
	if started := pod.Status.StartTime; started != nil && started.After(since) {
		since = started.Time
	}
	if pod.CreationTimestamp.After(w.pod.CreationTimestamp.Time) {
		w.pod = pod
	}
	w.pods[pod.Name] = true
	w.perDay.Add(perDay(counts, r.Until.Sub(since)))
}

// perDay extrapolates the counts of a time to a day.
func perDay(counts dnsserver.ClientCounts, window time.Duration) dnsserver.ClientCounts {
	return counts.Scale(day.Seconds() / max(window, minWindow).Seconds())
}

// podCounts are the queries of a pod at all servers, or of an address that no pod has.
type podCounts struct {
	Pod     *corev1.Pod // nil: none has the address
	Address netip.Addr
	dnsserver.ClientCounts
}

// countPods returns what each client of the servers sent, the one with most queries first. The servers, which are
// clients of each other, are left out.
func countPods(sources []ClientSource, pods []corev1.Pod) (list []podCounts) {
	byAddress, servers := podsByAddress(pods), map[netip.Addr]bool{}
	for _, s := range sources {
		servers[s.Address] = true
	}
	found := map[netip.Addr]*podCounts{}
	for _, s := range sources {
		for _, c := range s.Report.Clients {
			if servers[c.Address] {
				continue
			}
			if found[c.Address] == nil {
				found[c.Address] = &podCounts{Pod: byAddress[c.Address], Address: c.Address}
			}
			found[c.Address].Add(c.ClientCounts)
		}
	}
	for _, c := range found {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b podCounts) int {
		return cmp.Or(cmp.Compare(b.Queries, a.Queries), a.Address.Compare(b.Address))
	})
	return list
}

// namesOf returns the names that a client asks for, the most frequent first; none unless the servers count them.
func namesOf(sources []ClientSource, client netip.Addr) []string {
	names := map[string]uint64{}
	for _, s := range sources {
		for _, n := range s.Report.Names {
			if n.Address == client {
				names[n.Name] += n.Queries - n.Error
			}
		}
	}
	return byCount(names)
}

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
