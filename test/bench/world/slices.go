// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slice returns a new slice of s with the ports of the pods, which differ from those of
// the Service as with a targetPort.
func (g *Generator) slice(s *corev1.Service, six bool) *discoveryv1.EndpointSlice {
	g.sequence++
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, g.sequence),
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if six {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, p := range s.Spec.Ports {
		port := p.Port + 8000
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &port})
	}
	g.World.Slices = append(g.World.Slices, slice)
	return slice
}

// fill adds endpoints to slice, seldom so many that a reply is truncated.
func (g *Generator) fill(slice *discoveryv1.EndpointSlice) {
	slice.Endpoints = nil
	n := g.IntN(5)
	if g.chance(0.03) {
		n = 40 + g.IntN(60)
	}
	for range n {
		slice.Endpoints = append(slice.Endpoints, g.endpoint(slice))
	}
}

func (g *Generator) endpoint(slice *discoveryv1.EndpointSlice) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{g.endpointIP(slice.AddressType == discoveryv1.AddressTypeIPv6)}}
	if g.chance(0.3) {
		hostname := pick(g, "web-0", "web-1", "web-2", "tcp", "a", "1-2-3-4")
		e.Hostname = &hostname
	}
	if g.chance(0.2) {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: slice.Namespace, Name: "web-7d4b9c6f5d-x2x7k"}
	}
	yes, no := true, false
	switch {
	case g.chance(0.1):
		// Unknown: counts as ready.
	case g.chance(0.75):
		e.Conditions = discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no}
	case g.chance(0.5):
		e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	default:
		e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no}
	}
	return e
}

// stray creates a slice without a usable Service: the Service is deleted or of another
// kind, or the slice names none. It has its own addresses and sometimes duplicates of
// others.
func (g *Generator) stray() {
	owner := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: g.anyNamespace(), Name: "gone"}}
	if i := slices.IndexFunc(g.World.Services, IsExternal); i >= 0 && g.chance(0.3) {
		owner = g.World.Services[i].DeepCopy()
	}
	owner.Spec.Ports = g.ports(false)
	slice := g.slice(owner, g.chance(0.3))
	g.fill(slice)
	if g.chance(0.3) {
		delete(slice.Labels, discoveryv1.LabelServiceName)
		slice.Endpoints = slice.Endpoints[:min(1, len(slice.Endpoints))]
	}
	if g.chance(0.9) {
		for i := range slice.Endpoints {
			slice.Endpoints[i].Addresses = []string{g.strayIP(slice.AddressType)}
		}
	}
}

func (g *Generator) strayIP(t discoveryv1.AddressType) string {
	g.addresses++
	if t == discoveryv1.AddressTypeIPv6 {
		return fmt.Sprintf("2001:db8:dead::%x", g.addresses)
	}
	return fmt.Sprintf("198.19.%d.%d", g.addresses>>8&255, g.addresses&255)
}
