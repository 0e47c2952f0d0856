// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// Change changes about n objects: endpoints, new and deleted pods and Services, and
// Services that become another kind. It returns the changes for the API: the new and
// changed objects, and the deleted ones.
func (g *Generator) Change(n int) (applied, deleted []kubeapi.Object) {
	before := map[kubeapi.Object]bool{}
	for _, o := range g.World.Objects() {
		before[o] = true
	}
	for range n {
		g.changeOne()
	}
	for _, o := range g.World.Objects() {
		if !before[o] {
			applied = append(applied, o)
		}
		delete(before, o)
	}
	now := map[string]bool{}
	for _, o := range applied {
		now[identity(o)] = true
	}
	for o := range before {
		if !now[identity(o)] {
			deleted = append(deleted, o)
		}
	}
	return applied, deleted
}

func (g *Generator) changeOne() {
	switch {
	case g.chance(0.5):
		g.changeSlice()
	case g.chance(0.3):
		i := g.IntN(len(g.World.Services))
		if s := g.World.Services[i]; s.Name != "kube-dns" {
			g.World.Services = slices.Delete(g.World.Services, i, i+1) // its slices stay, as those of a slow controller
		}
	case g.chance(0.3):
		g.service()
	case g.chance(0.4):
		g.changeKind()
	case g.chance(0.3):
		g.pod()
	case len(g.World.Pods) > 0:
		i := g.IntN(len(g.World.Pods))
		g.World.Pods = slices.Delete(g.World.Pods, i, i+1)
	}
}

func (g *Generator) changeSlice() {
	i := g.IntN(len(g.World.Slices))
	slice := g.World.Slices[i].DeepCopy()
	if slice.AddressType != discoveryv1.AddressTypeFQDN && slice.Namespace != "kube-system" {
		g.fill(slice)
		g.World.Slices[i] = slice
	}
}

// changeKind turns a Service into another kind under the same name.
func (g *Generator) changeKind() {
	i := g.IntN(len(g.World.Services))
	s := g.World.Services[i].DeepCopy()
	if s.Name == "kube-dns" {
		return
	}
	switch {
	case IsExternal(s):
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: g.ports(false)}
		g.dualStack(s)
	case g.chance(0.5):
		s.Spec = corev1.ServiceSpec{}
		g.externalName(s)
	default:
		s.Spec.Ports = g.ports(IsHeadless(s))
	}
	g.World.Services[i] = s
}

func identity(o kubeapi.Object) string {
	kind := "service"
	switch o.(type) {
	case *discoveryv1.EndpointSlice:
		kind = "slice"
	case *corev1.Namespace:
		kind = "namespace"
	case *corev1.Pod:
		kind = "pod"
	}
	return kind + "/" + o.GetNamespace() + "/" + o.GetName()
}
