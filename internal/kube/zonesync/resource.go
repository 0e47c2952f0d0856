// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/snapshot"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// resource is an API resource from whose objects the zone is built.
type resource struct {
	name     string // as in the API: services
	selector fields.Selector
	example  runtime.Object
	remove   func(*zone.Edit, types.NamespacedName)
	list     func(*zone.Snapshot) iter.Seq[types.NamespacedName] // the objects in the zone
	restore  func(*zone.Edit, *snapshot.State)                   // adds the objects of a snapshot
}

var (
	namespaces = resource{
		name: "namespaces", selector: fields.Everything(), example: &corev1.Namespace{},
		remove: func(e *zone.Edit, n types.NamespacedName) { e.DeleteNamespace(n.Name) },
		list: func(s *zone.Snapshot) iter.Seq[types.NamespacedName] {
			return namesOf(s.Namespaces(), func(name string) (string, string) { return "", name })
		},
		restore: func(e *zone.Edit, s *snapshot.State) { putAll(s.Namespaces, e.PutNamespace) },
	}
	services = resource{
		name: "services", selector: fields.Everything(), example: &corev1.Service{},
		remove: func(e *zone.Edit, n types.NamespacedName) { e.DeleteService(n.Namespace, n.Name) },
		list: func(s *zone.Snapshot) iter.Seq[types.NamespacedName] {
			return namesOf(s.Services(), func(o *zone.Service) (string, string) { return o.Namespace, o.Name })
		},
		restore: func(e *zone.Edit, s *snapshot.State) { putAll(s.Services, e.PutService) },
	}
	endpointSlices = resource{
		name: "endpointslices", selector: fields.Everything(), example: &discoveryv1.EndpointSlice{},
		remove: func(e *zone.Edit, n types.NamespacedName) { e.DeleteEndpointSlice(n.Namespace, n.Name) },
		list: func(s *zone.Snapshot) iter.Seq[types.NamespacedName] {
			return namesOf(s.EndpointSlices(), func(o *zone.EndpointSlice) (string, string) { return o.Namespace, o.Name })
		},
		restore: func(e *zone.Edit, s *snapshot.State) { putAll(s.EndpointSlices, e.PutEndpointSlice) },
	}
	pods = resource{
		name: "pods", selector: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed"), example: &corev1.Pod{},
		remove: func(e *zone.Edit, n types.NamespacedName) { e.DeletePod(n.Namespace, n.Name) },
		list: func(s *zone.Snapshot) iter.Seq[types.NamespacedName] {
			return namesOf(s.Pods(), func(o *zone.Pod) (string, string) { return o.Namespace, o.Name })
		},
		restore: func(e *zone.Edit, s *snapshot.State) { putAll(s.Pods, e.PutPod) },
	}
)

func namesOf[T any](objects iter.Seq[T], name func(T) (namespace, name string)) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for o := range objects {
			namespace, name := name(o)
			if !yield(types.NamespacedName{Namespace: namespace, Name: name}) {
				return
			}
		}
	}
}

func putAll[T any](objects []T, put func(T)) {
	for _, o := range objects {
		put(o)
	}
}

// replaceAll replaces the objects of the resource in the zone; before is the zone as it was
// before the edit.
func (r *resource) replaceAll(e *zone.Edit, before *zone.Snapshot, objects []object) {
	keep := make(map[types.NamespacedName]bool, len(objects))
	for _, o := range objects {
		if o.put != nil {
			keep[o.NamespacedName] = true
		}
	}
	for n := range r.list(before) {
		if !keep[n] {
			r.remove(e, n)
		}
	}
	for _, o := range objects {
		if o.put != nil {
			o.put(e)
		}
	}
}

// apply adds, updates or removes one object.
func (r *resource) apply(e *zone.Edit, o object) {
	if o.put == nil {
		r.remove(e, o.NamespacedName)
	} else {
		o.put(e)
	}
}
