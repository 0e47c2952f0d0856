// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

const (
	// minWindow is the shortest time that is extrapolated to a day: a pod that has just started asks for more
	// names than later.
	minWindow = time.Minute

	day = 24 * time.Hour
)

// Source is the report of a DNS server.
type Source struct {
	Address netip.Addr // of the pod of the server
	Report  dnsserver.ClientReport
	Refused uint64 // queries that the server refused since its start, because it or its upstream servers were at a limit
}

// Advise returns the workloads that ask the servers, those that can save most first. Pods are all pods of the
// cluster, or those of a namespace.
func Advise(sources []Source, pods []corev1.Pod) v1alpha1.AdviseResult {
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
	key := idOf(pod)
	if found[key] == nil {
		found[key] = &workload{id: key, pod: pod, pods: map[string]bool{}, names: map[string]uint64{}}
	}
	return found[key]
}

// id names a workload.
type id struct{ namespace, kind, name string }

// idOf returns the object whose template has the DNS settings of a pod.
func idOf(pod *corev1.Pod) id {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return id{pod.Namespace, "Pod", pod.Name}
	}
	// A Deployment names its ReplicaSets after itself and the hash in this label.
	if hash := pod.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return id{pod.Namespace, "Deployment", name}
		}
	}
	return id{pod.Namespace, owner.Kind, owner.Name}
}

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

// PodCounts are the queries of a pod at all servers, or of an address that no pod has.
type PodCounts struct {
	Pod     *corev1.Pod // nil: none has the address
	Address netip.Addr
	dnsserver.ClientCounts
}

// CountPods returns what each client of the servers sent, the one with most queries first. The servers, which are
// clients of each other, are left out.
func CountPods(sources []Source, pods []corev1.Pod) (list []PodCounts) {
	byAddress, servers := podsByAddress(pods), map[netip.Addr]bool{}
	for _, s := range sources {
		servers[s.Address] = true
	}
	found := map[netip.Addr]*PodCounts{}
	for _, s := range sources {
		for _, c := range s.Report.Clients {
			if servers[c.Address] {
				continue
			}
			if found[c.Address] == nil {
				found[c.Address] = &PodCounts{Pod: byAddress[c.Address], Address: c.Address}
			}
			found[c.Address].Add(c.ClientCounts)
		}
	}
	for _, c := range found {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b PodCounts) int {
		return cmp.Or(cmp.Compare(b.Queries, a.Queries), a.Address.Compare(b.Address))
	})
	return list
}

// NamesOf returns the names that a client asks for, the most frequent first; none unless the servers count them.
func NamesOf(sources []Source, client netip.Addr) []string {
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
