// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// synthetic are the ranges of addresses that stand for those which a cluster would
// give: reserved for benchmarks of networks (RFC 2544, RFC 5180), so that they are
// nobody's. Services have those in the first half, endpoints the others.
var synthetic = map[corev1.IPFamily]netip.Prefix{
	corev1.IPv4Protocol: netip.MustParsePrefix("198.18.0.0/15"),
	corev1.IPv6Protocol: netip.MustParsePrefix("2001:2::/48"),
}

// Synthetic reports whether an address in a zone is one that stands for what no
// cluster has assigned, in 198.18.0.0/15 and 2001:2::/48. It follows from the object's
// namespace and name, and so is the same in every run.
func Synthetic(addr netip.Addr) bool {
	for _, p := range synthetic {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// addresses hands out synthetic addresses: one for each key, to nobody else.
type addresses struct {
	of    map[string]netip.Addr
	taken map[netip.Addr]bool
}

// take returns the address of what has the key. Where another has it already it is the
// next one that is free: who comes first depends on the order of calls only. The zero
// Addr says that there is none left.
func (a addresses) take(half byte, family corev1.IPFamily, key string) netip.Addr {
	key = string(half) + string(family) + key
	if addr, ok := a.of[key]; ok {
		return addr
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	b := synthetic[family].Addr().AsSlice()
	if family == corev1.IPv4Protocol {
		b[1] += half
	} else {
		b[len(b)-3] = half
	}
	for i := range uint32(1 << 16) {
		n := h.Sum32() + i
		b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
		addr, _ := netip.AddrFromSlice(b)
		// Neither 0 nor 255 at the end, which look like no host.
		if last := byte(n); last != 0 && last != 255 && !a.taken[addr] {
			a.of[key], a.taken[addr] = addr, true
			return addr
		}
	}
	return netip.Addr{}
}

const (
	forServices  = 0
	forEndpoints = 1
)

// synthesize gives addresses to the Services that the API server would give some, and
// endpoints to the headless ones whose selectors match pods, if they have no slice.
func synthesize(services, slicesOf map[name]written, pods []kube.Workload) {
	given := addresses{map[string]netip.Addr{}, map[netip.Addr]bool{}}
	for _, w := range services {
		for _, ip := range clusterIPs(&w.object.(*corev1.Service).Spec) {
			if addr, err := netip.ParseAddr(ip); err == nil {
				given.taken[addr] = true
			}
		}
	}
	withSlices := map[name]bool{}
	for n, w := range slicesOf {
		withSlices[name{n.namespace, w.object.GetLabels()[discoveryv1.LabelServiceName]}] = true
	}
	for _, n := range slices.SortedFunc(maps.Keys(services), compareNames) {
		w := services[n]
		s := *w.object.(*corev1.Service)
		switch {
		case s.Spec.Type == corev1.ServiceTypeExternalName:
		case s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) == 0:
			for _, family := range familiesOf(&s.Spec) {
				s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, given.take(forServices, family, n.namespace+"/"+n.name).String())
			}
			w.object = &s
			services[n] = w
		case clusterIPs(&s.Spec) == nil && len(s.Spec.Selector) > 0 && !withSlices[n]:
			for _, family := range familiesOf(&s.Spec) {
				slice := given.slice(&s, family, pods)
				slicesOf[name{n.namespace, slice.Name}] = written{source: w.source, kind: endpointSlices, object: slice}
			}
		}
	}
}

// familiesOf is what a cluster of both families, IPv4 first, would choose.
func familiesOf(spec *corev1.ServiceSpec) []corev1.IPFamily {
	policy := spec.IPFamilyPolicy
	dual := policy != nil && *policy != corev1.IPFamilyPolicySingleStack
	switch {
	case len(spec.IPFamilies) == 1 && dual && spec.IPFamilies[0] == corev1.IPv6Protocol:
		return []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	case len(spec.IPFamilies) < 2 && dual:
		return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	var known []corev1.IPFamily
	for _, f := range spec.IPFamilies {
		if _, ok := synthetic[f]; ok {
			known = append(known, f)
		}
	}
	if known == nil {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return known
}

// maxPods is how many pods of a StatefulSet or Job have endpoints, those with the
// lowest numbers: as many as an EndpointSlice of the API may hold.
const maxPods = 1000

// slice has an endpoint for each pod that the selector matches. A workload whose pods
// have no names that are known before is there as if it had one.
func (a addresses) slice(s *corev1.Service, family corev1.IPFamily, pods []kube.Workload) *discoveryv1.EndpointSlice {
	made := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-synthetic-" + string(family),
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressType(family),
	}
	for _, p := range s.Spec.Ports {
		target := p.Port
		if n := p.TargetPort.IntVal; n != 0 {
			target = n
		}
		made.Ports = append(made.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &target})
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, w := range pods {
		if w.Namespace != s.Namespace || !selector.Matches(labels.Set(w.Pod.Labels)) {
			continue
		}
		add := func(pod, host string) {
			ep := discoveryv1.Endpoint{Addresses: []string{a.take(forEndpoints, family, s.Namespace+"/"+pod).String()}}
			if w.Pod.Spec.Subdomain == s.Name && host != "" {
				ep.Hostname = &host
			}
			made.Endpoints = append(made.Endpoints, ep)
		}
		n := w.Ordinals
		if n.Base == "" {
			add(w.Pod.Name, w.Pod.Spec.Hostname)
			continue
		}
		for i := range min(int64(n.Last)-int64(n.First)+1, maxPods) {
			host := fmt.Sprintf("%s-%d", n.Base, int64(n.First)+i)
			add(host, host)
		}
	}
	return made
}
