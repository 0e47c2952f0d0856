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
	e.publish(old, next)
}

// DeleteService removes a Service. Its slices stay, without names, until they are
// deleted or the Service is put again.
func (e *Edit) DeleteService(namespace, name string) {
	old, next := e.copyService(namespace, name)
	if next.spec == nil {
		return
	}
	next.spec = nil
	e.publish(old, next)
}

// PutEndpointSlice adds or replaces a slice. Its Service may change.
func (e *Edit) PutEndpointSlice(s EndpointSlice) {
	key := objectName{s.Namespace, s.Name}
	slices.SortFunc(s.Endpoints, compareEndpoints)
	if old := e.zone.slices[key]; old != nil && old.equal(&s) {
		return
	} else if old != nil && old.Service != s.Service {
		e.DeleteEndpointSlice(s.Namespace, s.Name)
	}
	e.zone.slices[key] = &s

	old, next := e.copyService(s.Namespace, s.Service)
	if current, i := next.slice(s.Name); current != nil {
		next.slices[i] = &s
	} else {
		next.slices = slices.Insert(next.slices, i, &s)
	}
	e.publish(old, next)
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
	_, i := next.slice(name)
	next.slices = slices.Delete(next.slices, i, i+1)
	e.publish(old, next)
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
		key := labelKey(p.Namespace) + addrKey(addr)
		var pods []*Pod
		if old := e.next.pods.get(key); old != nil {
			pods = old.pods
		}
		e.next.pods.set(e.zone.gen, key, &addrPods{addr, append(slices.Clip(pods), &p)})
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
		key := labelKey(namespace) + addrKey(addr)
		old := e.next.pods.get(key)
		if old == nil {
			continue // the pod has the address twice
		}
		pods := slices.DeleteFunc(slices.Clone(old.pods), func(p *Pod) bool { return p == pod })
		if len(pods) == 0 {
			e.next.pods.set(e.zone.gen, key, nil)
		} else {
			e.next.pods.set(e.zone.gen, key, &addrPods{addr, pods})
		}
	}
}

// copyService returns the published service, nil if there is none, and a copy to change.
func (e *Edit) copyService(namespace, name string) (old, next *service) {
	old = e.next.services.get(string(serviceKey(new([maxKey]byte), namespace, name)))
	if old == nil {
		return nil, &service{identity: &identity{namespace, name}}
	}
	return old, &service{identity: old.identity, spec: old.spec, slices: slices.Clone(old.slices)}
}

// publish replaces old, which may be nil, with next, and updates their namespace and
// their reverse names.
func (e *Edit) publish(old, next *service) {
	key := string(serviceKey(new([maxKey]byte), next.namespace, next.name))
	if next.spec == nil && len(next.slices) == 0 {
		e.next.services.set(e.zone.gen, key, nil)
	} else {
		e.next.services.set(e.zone.gen, key, next)
	}
	if existed, exists := old.exists(), next.exists(); existed != exists {
		e.editNamespace(next.namespace, func(n *namespace) {
			if existed {
				n.services--
			} else {
				n.services++
			}
		})
	}
	for addr, o := range clusterOwners(old) {
		e.removeOwner(addr, o)
	}
	for ep := range endpointDiff(old, next) {
		if !next.containsEndpoint(ep) {
			e.removeOwner(ep.Addr, owner{id: next.identity, host: ep.Hostname})
		}
	}
	for addr, o := range clusterOwners(next) {
		e.addOwner(addr, o)
	}
	for ep := range endpointDiff(next, old) {
		e.addOwner(ep.Addr, owner{id: next.identity, host: ep.Hostname})
	}
}

// endpointDiff yields the endpoints that a serves from one of its slices and b does not
// serve from the slice of that name. Either may be nil.
func endpointDiff(a, b *service) iter.Seq[Endpoint] {
	return func(yield func(Endpoint) bool) {
		if a == nil {
			return
		}
		for _, slice := range a.slices {
			if !yieldDiff(a, b, slice, yield) {
				return
			}
		}
	}
}

// yieldDiff is endpointDiff for one slice of a. It reports false if yield did.
func yieldDiff(a, b *service, slice *EndpointSlice, yield func(Endpoint) bool) bool {
	rest := b.endpoints(slice.Name) // both are sorted
	for _, ep := range slice.Endpoints {
		if !a.serves(ep) {
			continue
		}
		for len(rest) > 0 && compareEndpoints(rest[0], ep) < 0 {
			rest = rest[1:]
		}
		if !b.servesFirst(rest, ep) && !yield(ep) {
			return false
		}
	}
	return true
}

// endpoints returns the endpoints in the slice of that name.
func (s *service) endpoints(slice string) []Endpoint {
	if s == nil {
		return nil
	}
	if found, _ := s.slice(slice); found != nil {
		return found.Endpoints
	}
	return nil
}

// servesFirst reports whether s serves one of the endpoints at the front of sorted that
// equal ep.
func (s *service) servesFirst(sorted []Endpoint, ep Endpoint) bool {
	for _, other := range sorted {
		if compareEndpoints(other, ep) != 0 {
			return false
		}
		if s.serves(other) {
			return true
		}
	}
	return false
}

// owner is a name that has a PTR record at an address: a Service at its cluster IP, or
// an endpoint.
type owner struct {
	id      *identity
	host    string // the endpoint's Hostname
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
	return cmp.Or(cmp.Compare(a.id.namespace, b.id.namespace), cmp.Compare(a.id.name, b.id.name), cmp.Compare(a.host, b.host))
}

// clusterOwners yields the cluster IPs of s, which may be nil, with their owner.
func clusterOwners(s *service) iter.Seq2[netip.Addr, owner] {
	return func(yield func(netip.Addr, owner) bool) {
		if !s.exists() {
			return
		}
		for _, ip := range s.spec.ClusterIPs {
			if !yield(ip, owner{id: s.identity, cluster: true}) {
				return
			}
		}
	}
}

func (e *Edit) addOwner(addr netip.Addr, o owner) {
	key := addrKey(addr)
	var owners []owner
	if old := e.next.addrs.get(key); old != nil {
		owners = *old
	}
	i, found := slices.BinarySearchFunc(owners, o, compareOwners)
	if found {
		return
	}
	owners = slices.Insert(slices.Clip(owners), i, o)
	e.next.addrs.set(e.zone.gen, key, &owners)
}

func (e *Edit) removeOwner(addr netip.Addr, o owner) {
	key := addrKey(addr)
	old := e.next.addrs.get(key)
	if old == nil {
		return
	}
	i, found := slices.BinarySearchFunc(*old, o, compareOwners)
	switch {
	case !found:
	case len(*old) == 1:
		e.next.addrs.set(e.zone.gen, key, nil)
	default:
		owners := slices.Delete(slices.Clone(*old), i, i+1)
		e.next.addrs.set(e.zone.gen, key, &owners)
	}
}
