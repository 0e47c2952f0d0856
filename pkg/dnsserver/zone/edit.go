// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"
)

// Edit changes a zone. It is valid inside the function that Zone.Update calls. The zone
// takes ownership of the objects that are put. Putting an equal object is a no-op.
type Edit struct {
	zone *Zone
	next *Snapshot
}

// Snapshot returns the zone with the edit so far. It must not be used while or after the edit changes it.
func (e *Edit) Snapshot() *Snapshot { return e.next }

// SetLoaded marks the zone as complete: a name that is not in it does not exist.
func (e *Edit) SetLoaded() { e.next.loaded, e.next.stale = true, time.Time{} }

// SetStale marks the zone as loaded with the data of an earlier time, possibly
// incomplete, because no current data is available. See [Snapshot.StaleSince].
func (e *Edit) SetStale(then time.Time) { e.next.loaded, e.next.stale = true, then }

// SetUnloaded reverts SetLoaded and SetStale.
func (e *Edit) SetUnloaded() { e.next.loaded, e.next.stale = false, time.Time{} }

// PutNamespace adds a namespace.
func (e *Edit) PutNamespace(name string) {
	e.editNamespace(name, func(n *namespace) { n.declared = true })
}

// DeleteNamespace removes a namespace. Its name exists as long as a Service is in it.
func (e *Edit) DeleteNamespace(name string) {
	e.editNamespace(name, func(n *namespace) { n.declared = false })
}

// editNamespace replaces a namespace with a changed copy.
func (e *Edit) editNamespace(name string, change func(*namespace)) {
	old := e.next.namespaces.get(name)
	next := &namespace{name: name}
	if old != nil {
		*next = *old
	}
	before := *next
	if change(next); *next == before {
		return
	}
	if *next == (namespace{name: name}) {
		next = nil
	}
	e.next.namespaces.set(e.zone.gen, name, next)
}

// PutService adds or replaces a Service.
func (e *Edit) PutService(s Service) {
	old, next := e.copyService(s.Namespace, s.Name)
	if next.spec != nil && next.spec.equal(&s) {
		return
	}
	next.spec = &s
	e.publishSpec(old, next)
}

// DeleteService removes a Service. Its slices stay, without names, until they are
// deleted or the Service is put again.
func (e *Edit) DeleteService(namespace, name string) {
	old, next := e.copyService(namespace, name)
	if next.spec == nil {
		return
	}
	next.spec = nil
	e.publishSpec(old, next)
}

// PutEndpointSlice adds or replaces a slice. Its Service may change.
func (e *Edit) PutEndpointSlice(s EndpointSlice) {
	key := objectName{s.Namespace, s.Name}
	if !slices.IsSortedFunc(s.Endpoints, compareEndpoints) { // else it may be that of the zone, which has readers
		slices.SortFunc(s.Endpoints, compareEndpoints)
	}
	if old := e.zone.slices[key]; old != nil && old.equal(&s) {
		return
	} else if old != nil && old.Service != s.Service {
		e.DeleteEndpointSlice(s.Namespace, s.Name)
	}
	e.zone.slices[key] = &s

	old, next := e.copyService(s.Namespace, s.Service)
	next.named += s.named()
	current, i := findSlice(next.slices, s.Name)
	if current != nil {
		next.named -= current.named()
		next.slices[i] = &s
	} else {
		next.slices = slices.Insert(next.slices, i, &s)
	}
	e.publish(old, next)
	e.replaceOwners(old, current, next, &s)
}

// DeleteEndpointSlice removes a slice. It is a no-op if the slice does not exist.
func (e *Edit) DeleteEndpointSlice(namespace, name string) {
	key := objectName{namespace, name}
	slice := e.zone.slices[key]
	if slice == nil {
		return
	}
	delete(e.zone.slices, key)
	old, next := e.copyService(namespace, slice.Service)
	_, i := findSlice(next.slices, name)
	next.slices = slices.Delete(next.slices, i, i+1)
	next.named -= slice.named()
	e.publish(old, next)
	e.replaceOwners(old, slice, next, nil)
}

// PutPod adds or replaces a pod. A pod without addresses is deleted.
func (e *Edit) PutPod(p Pod) {
	name := objectName{p.Namespace, p.Name}
	if old := e.zone.pods[name]; old != nil && slices.Equal(old.Addrs, p.Addrs) {
		return
	}
	e.DeletePod(p.Namespace, p.Name)
	if len(p.Addrs) == 0 {
		return
	}
	e.zone.pods[name] = &p
	for _, addr := range p.Addrs {
		e.editPods(p.Namespace, addr, func(pods []*Pod) []*Pod { return append(pods, &p) })
	}
}

// DeletePod removes a pod. It is a no-op if the pod does not exist.
func (e *Edit) DeletePod(namespace, name string) {
	pod := e.zone.pods[objectName{namespace, name}]
	if pod == nil {
		return
	}
	delete(e.zone.pods, objectName{namespace, name})
	for _, addr := range pod.Addrs {
		e.editPods(namespace, addr, func(pods []*Pod) []*Pod {
			return slices.DeleteFunc(pods, func(p *Pod) bool { return p == pod })
		})
	}
}

// editPods changes a copy of the pods of a namespace that have an address.
func (e *Edit) editPods(namespace string, addr netip.Addr, change func([]*Pod) []*Pod) {
	key := labelKey(namespace) + addrKey(addr)
	var pods []*Pod
	if old := e.next.pods.get(key); old != nil {
		pods = slices.Clone(old.pods)
	}
	if pods = change(pods); len(pods) == 0 {
		e.next.pods.set(e.zone.gen, key, nil)
	} else {
		e.next.pods.set(e.zone.gen, key, &addrPods{addr, pods})
	}
}

// copyService returns the published service, nil if there is none, and a copy to change.
func (e *Edit) copyService(namespace, name string) (old, next *service) {
	if old = e.next.service(namespace, name); old == nil {
		return nil, &service{identity: &identity{namespace: namespace, name: name}}
	}
	return old, &service{identity: old.identity, spec: old.spec, slices: slices.Clone(old.slices), named: old.named}
}

// publishSpec is publish for a change of the Service itself, which may serve other endpoints of its slices.
func (e *Edit) publishSpec(old, next *service) {
	e.publish(old, next)
	for _, ready := range []bool{false, true} {
		if old.serves(Endpoint{Ready: ready}) != next.serves(Endpoint{Ready: ready}) {
			for _, slice := range next.slices {
				e.replaceOwners(old, slice, next, slice)
			}
			return
		}
	}
}

// publish replaces old, which may be nil, with next, and updates their namespace and the reverse names of their addresses.
func (e *Edit) publish(old, next *service) {
	key := string(serviceKey(new([maxKey]byte), next.namespace, next.name))
	next.version = e.zone.gen
	if next.spec == nil && len(next.slices) == 0 {
		e.next.services.set(e.zone.gen, key, nil)
	} else {
		e.next.services.set(e.zone.gen, key, next)
	}
	switch existed, exists := old.exists(), next.exists(); {
	case existed && !exists:
		e.editNamespace(next.namespace, func(n *namespace) { n.services-- })
	case exists && !existed:
		e.editNamespace(next.namespace, func(n *namespace) { n.services++ })
	}
	for _, addr := range old.clusterIPs() {
		e.countOwners(addr, owner{id: next.identity, slices: -1, cluster: true})
	}
	for _, addr := range next.clusterIPs() {
		e.countOwners(addr, owner{id: next.identity, slices: 1, cluster: true})
	}
}

// replaceOwners replaces the reverse names of the endpoints that old serves from a slice with
// those that next serves from that slice. Each may be nil.
func (e *Edit) replaceOwners(old *service, before *EndpointSlice, next *service, after *EndpointSlice) {
	var addr netip.Addr
	var changes []owner // at addr, as the endpoints of a slice are sorted
	change := func(ep Endpoint, slices int32) {
		if ep.Addr != addr {
			e.countOwners(addr, changes...)
			addr, changes = ep.Addr, changes[:0]
		}
		changes = append(changes, owner{id: next.identity.of(ep), slices: slices})
	}
	for ep := range old.servedFrom(before) {
		if !next.servesFrom(after, ep) {
			change(ep, -1)
		}
	}
	for ep := range next.servedFrom(after) {
		if !old.servesFrom(before, ep) {
			change(ep, 1)
		}
	}
	e.countOwners(addr, changes...)
}

// servedFrom yields the distinct endpoints that s serves from a slice, which may be nil.
func (s *service) servedFrom(slice *EndpointSlice) iter.Seq[Endpoint] {
	return func(yield func(Endpoint) bool) {
		if slice == nil {
			return
		}
		var last Endpoint // not an endpoint: it has no address
		for _, ep := range slice.Endpoints {
			if !s.serves(ep) || compareEndpoints(ep, last) == 0 {
				continue
			}
			if last = ep; !yield(ep) {
				return
			}
		}
	}
}

// servesFrom reports whether s serves the endpoint from a slice, which may be nil.
func (s *service) servesFrom(slice *EndpointSlice, ep Endpoint) bool {
	if slice == nil {
		return false
	}
	i, _ := slices.BinarySearchFunc(slice.Endpoints, ep, compareEndpoints)
	for ; i < len(slice.Endpoints) && compareEndpoints(slice.Endpoints[i], ep) == 0; i++ {
		if s.serves(slice.Endpoints[i]) {
			return true
		}
	}
	return false
}

// owner is a name that has a PTR record at an address: a Service at its cluster IP, or an endpoint. It is immutable once
// published.
type owner struct {
	id *identity // of the Service; with the hostname of the endpoint if it has one

	// others are further owners of the same address, if this is the first in the order of compareOwners. Most addresses
	// have one owner.
	others *[]owner

	// slices is the number of slices that the endpoint is in, and 1 for a cluster IP. While
	// the controller moves an endpoint between slices it is in both.
	slices  int32
	cluster bool
}

// compareOwners sorts cluster IPs first, then by name.
func compareOwners(a, b owner) int {
	if a.cluster != b.cluster {
		if a.cluster {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.id.namespace, b.id.namespace), cmp.Compare(a.id.name, b.id.name), cmp.Compare(a.id.host, b.id.host))
}

// all yields the owners of an address, given the first, which may be nil.
func (o *owner) all() iter.Seq[*owner] {
	return func(yield func(*owner) bool) {
		if o == nil || !yield(o) || o.others == nil {
			return
		}
		for i := range *o.others {
			if !yield(&(*o.others)[i]) {
				return
			}
		}
	}
}

// countOwners adds the owners of an address in changes to as many slices as each has, which may be less than 0. All of a
// slice are added at once: a copy of the others, which may be many, is made for readers.
func (e *Edit) countOwners(addr netip.Addr, changes ...owner) {
	if len(changes) == 0 {
		return
	}
	var owners []owner
	key := addrKey(addr)
	for o := range e.next.owners(key) {
		owners = append(owners, owner{id: o.id, slices: o.slices, cluster: o.cluster})
	}
	for _, x := range changes {
		i, found := slices.BinarySearchFunc(owners, x, compareOwners)
		if !found {
			owners = slices.Insert(owners, i, owner{id: x.id, cluster: x.cluster})
		}
		if owners[i].slices += x.slices; owners[i].slices <= 0 {
			owners = slices.Delete(owners, i, i+1)
		}
	}
	var first *owner
	if len(owners) > 0 {
		first = &owners[0]
	}
	if len(owners) > 1 {
		others := owners[1:]
		first.others = &others
	}
	e.next.addrs.set(e.zone.gen, key, first)
}
