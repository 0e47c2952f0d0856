// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// synthetic are the ranges of synthetic addresses. They are reserved for benchmarks of
// networks (RFC 2544, RFC 5180), so no host uses them. Services have addresses in the first
// half of a range, endpoints in the second.
var synthetic = map[corev1.IPFamily]netip.Prefix{
	corev1.IPv4Protocol: netip.MustParsePrefix("198.18.0.0/15"),
	corev1.IPv6Protocol: netip.MustParsePrefix("2001:2::/48"),
}

// Synthetic reports whether an address in a zone was assigned by this package, from
// 198.18.0.0/15 or 2001:2::/48, to an object of a manifest to which a cluster would assign
// one. It is derived from the object's namespace and name, so it is the same in every run.
func Synthetic(addr netip.Addr) bool {
	for _, p := range synthetic {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// allocator assigns synthetic addresses: each address to one key.
type allocator struct {
	assigned map[string]netip.Addr
	used     map[netip.Addr]bool
}

// assign returns the address of a key. If another key has the address that follows from
// this one, it is the next free one; so the result then depends on the order of calls. It
// returns the zero Addr when no address is free.
func (a allocator) assign(half byte, family corev1.IPFamily, key string) netip.Addr {
	key = string(half) + string(family) + key
	if addr, ok := a.assigned[key]; ok {
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
		// Not 0 or 255 at the end: they look like a network or broadcast address.
		if last := byte(n); last != 0 && last != 255 && !a.used[addr] {
			a.assigned[key], a.used[addr] = addr, true
			return addr
		}
	}
	return netip.Addr{}
}

// The halves of a range.
const (
	forServices  = 0
	forEndpoints = 1
)

// synthesize assigns addresses to the Services to which the API server would assign one,
// and adds an EndpointSlice to each headless Service that has a selector and no slice.
func synthesize(serviceObjects, sliceObjects map[types.NamespacedName]manifestObject, pods []kube.Workload) {
	a := allocator{map[string]netip.Addr{}, map[netip.Addr]bool{}}
	for _, o := range serviceObjects {
		for _, ip := range clusterIPs(&o.object.(*corev1.Service).Spec) {
			if addr, err := netip.ParseAddr(ip); err == nil {
				a.used[addr] = true
			}
		}
	}
	hasSlices := map[types.NamespacedName]bool{}
	for n, o := range sliceObjects {
		hasSlices[types.NamespacedName{Namespace: n.Namespace, Name: o.object.GetLabels()[discoveryv1.LabelServiceName]}] = true
	}
	for _, n := range slices.SortedFunc(maps.Keys(serviceObjects), compareNames) {
		o := serviceObjects[n]
		s := *o.object.(*corev1.Service)
		switch {
		case s.Spec.Type == corev1.ServiceTypeExternalName: // it has no address
		case s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) == 0:
			s.Spec.ClusterIPs = a.clusterIPs(&s)
			o.object = &s
			serviceObjects[n] = o
		case clusterIPs(&s.Spec) == nil && len(s.Spec.Selector) > 0 && !hasSlices[n]:
			for _, family := range ipFamilies(&s.Spec) {
				slice := a.slice(&s, family, pods)
				sliceObjects[nameOf(slice)] = manifestObject{source: o.source, resource: endpointSlices, object: slice}
			}
		}
	}
}

// clusterIPs returns an address for each IP family of s.
func (a allocator) clusterIPs(s *corev1.Service) []string {
	var ips []string
	for _, family := range ipFamilies(&s.Spec) {
		ips = append(ips, a.assign(forServices, family, s.Namespace+"/"+s.Name).String())
	}
	return ips
}

// ipFamilies returns the IP families that a dual-stack cluster with IPv4 as its first
// family would choose.
func ipFamilies(spec *corev1.ServiceSpec) []corev1.IPFamily {
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

// maxPods is the number of pods of a StatefulSet or Job that have endpoints, those with the
// lowest ordinals: as many as an EndpointSlice of the API may hold.
const maxPods = 1000

// slice returns an EndpointSlice with the pods that the Service selects. A workload whose
// pods have generated names is one pod.
func (a allocator) slice(s *corev1.Service, family corev1.IPFamily, pods []kube.Workload) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
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
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &target})
	}
	for _, w := range pods {
		if w.Namespace == s.Namespace {
			slice.Endpoints = append(slice.Endpoints, a.endpoints(s, family, w)...)
		}
	}
	return slice
}

// endpoints returns the endpoints of the pods of w that the Service selects.
func (a allocator) endpoints(s *corev1.Service, family corev1.IPFamily, w kube.Workload) (list []discoveryv1.Endpoint) {
	add := func(pod, host string, ordinal int64) {
		if !w.SelectedBy(s.Spec.Selector, ordinal) {
			return
		}
		ep := discoveryv1.Endpoint{Addresses: []string{a.assign(forEndpoints, family, s.Namespace+"/"+pod).String()}}
		if w.Pod.Spec.Subdomain == s.Name && host != "" {
			ep.Hostname = &host
		}
		list = append(list, ep)
	}
	n := w.Ordinals
	if n.Base == "" {
		add(w.Pod.Name, w.Pod.Spec.Hostname, 0)
		return list
	}
	for i := range min(int64(n.Last)-int64(n.First)+1, maxPods) {
		host := fmt.Sprintf("%s-%d", n.Base, int64(n.First)+i)
		add(host, host, int64(n.First)+i)
	}
	return list
}
