// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/snapshot"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// kind is a type of object that the zone is made of.
type kind struct {
	resource string // the API's name for it
	selector string // field selector; "": all
	example  runtime.Object
	remove   func(*zone.Edit, name)
	held     func(*zone.Snapshot) iter.Seq[name] // what the zone has of it
	restore  func(*zone.Edit, *snapshot.State)   // puts in what a snapshot has of it
}

var namespaces = kind{
	resource: "namespaces",
	example:  &corev1.Namespace{},
	remove:   func(e *zone.Edit, n name) { e.DeleteNamespace(n.name) },
	held: func(s *zone.Snapshot) iter.Seq[name] {
		return namesOf(s.Namespaces(), func(ns string) name { return name{name: ns} })
	},
	restore: func(e *zone.Edit, s *snapshot.State) { each(s.Namespaces, e.PutNamespace) },
}

var services = kind{
	resource: "services",
	example:  &corev1.Service{},
	remove:   func(e *zone.Edit, n name) { e.DeleteService(n.namespace, n.name) },
	held: func(s *zone.Snapshot) iter.Seq[name] {
		return namesOf(s.Services(), func(o *zone.Service) name { return name{o.Namespace, o.Name} })
	},
	restore: func(e *zone.Edit, s *snapshot.State) { each(s.Services, e.PutService) },
}

var endpointSlices = kind{
	resource: "endpointslices",
	example:  &discoveryv1.EndpointSlice{},
	remove:   func(e *zone.Edit, n name) { e.DeleteEndpointSlice(n.namespace, n.name) },
	held: func(s *zone.Snapshot) iter.Seq[name] {
		return namesOf(s.EndpointSlices(), func(o *zone.EndpointSlice) name { return name{o.Namespace, o.Name} })
	},
	restore: func(e *zone.Edit, s *snapshot.State) { each(s.EndpointSlices, e.PutEndpointSlice) },
}

var pods = kind{
	resource: "pods",
	selector: "status.phase!=Succeeded,status.phase!=Failed",
	example:  &corev1.Pod{},
	remove:   func(e *zone.Edit, n name) { e.DeletePod(n.namespace, n.name) },
	held: func(s *zone.Snapshot) iter.Seq[name] {
		return namesOf(s.Pods(), func(o *zone.Pod) name { return name{o.Namespace, o.Name} })
	},
	restore: func(e *zone.Edit, s *snapshot.State) { each(s.Pods, e.PutPod) },
}

func namesOf[T any](objects iter.Seq[T], of func(T) name) iter.Seq[name] {
	return func(yield func(name) bool) {
		for o := range objects {
			if !yield(of(o)) {
				return
			}
		}
	}
}

// replace makes objects all that the zone has of the kind; now is the zone as it is
// before the edit.
func (k *kind) replace(e *zone.Edit, now *zone.Snapshot, objects []object) {
	keep := make(map[name]bool, len(objects))
	for _, o := range objects {
		if o.put != nil {
			keep[o.name] = true
		}
	}
	for n := range k.held(now) {
		if !keep[n] {
			k.remove(e, n)
		}
	}
	for _, o := range objects {
		if o.put != nil {
			o.put(e)
		}
	}
}

// apply takes one object in, as it is now.
func (k *kind) apply(e *zone.Edit, o object) {
	if o.put == nil {
		k.remove(e, o.name)
	} else {
		o.put(e)
	}
}

func each[T any](objects []T, put func(T)) {
	for _, o := range objects {
		put(o)
	}
}
