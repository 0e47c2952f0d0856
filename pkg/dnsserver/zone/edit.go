// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Edit changes a zone. It is valid inside the function that Zone.Update calls. What
// is put belongs to the zone from then on. Putting what is there already changes
// nothing.
type Edit struct {
	zone *Zone
	next *Snapshot
}

// SetLoaded says that the zone now holds the whole cluster, so that what is not in it
// does not exist.
func (e *Edit) SetLoaded() { e.next.loaded, e.next.stale = true, time.Time{} }

// SetStale says that the zone holds the cluster as it was then, in part at least,
// and that nothing better is to be had: it is served, and [Snapshot.StaleSince] tells.
func (e *Edit) SetStale(then time.Time) { e.next.loaded, e.next.stale = true, then }

// SetUnloaded takes back what SetLoaded or SetStale said.
func (e *Edit) SetUnloaded() { e.next.loaded, e.next.stale = false, time.Time{} }

// PutNamespace makes a namespace exist.
func (e *Edit) PutNamespace(name string) {
	e.editNamespace(name, func(n *namespace) { n.declared = true })
}

// DeleteNamespace removes a namespace. Its name goes on to exist until the last
// Service in it has gone as well.
func (e *Edit) DeleteNamespace(name string) {
	e.editNamespace(name, func(n *namespace) { n.declared = false })
}

// editNamespace publishes a changed copy of a namespace in its place.
func (e *Edit) editNamespace(name string, change func(*namespace)) {
	old := e.next.namespaces.get(name)
	next := &namespace{name: name}
	if old != nil {
		*next = *old
	}
	was := *next
	if change(next); *next == was {
		return
	}
	if *next == (namespace{name: name}) {
		next = nil
	}
	e.next.namespaces.set(e.zone.gen, name, next)
}

// PutService adds a Service or replaces the one of that name.
func (e *Edit) PutService(s Service) {
	old, next := e.edit(s.Namespace, s.Name)
	if next.spec != nil && next.spec.equal(&s) {
		return
	}
	next.spec = &s
	e.swap(old, next)
}

// DeleteService removes a Service. Its slices stay, without names, until they are
// deleted or the Service comes back.
func (e *Edit) DeleteService(namespace, name string) {
	old, next := e.edit(namespace, name)
	if next.spec == nil {
		return
	}
	next.spec = nil
	e.swap(old, next)
}

// PutEndpointSlice adds a slice or replaces the one of that name, which may have
// belonged to another Service.
func (e *Edit) PutEndpointSlice(s EndpointSlice) {
	key := objectName{s.Namespace, s.Name}
	slices.SortFunc(s.Endpoints, compareEndpoints)
	if was := e.zone.slices[key]; was != nil && was.equal(&s) {
		return
	} else if was != nil && was.Service != s.Service {
		e.DeleteEndpointSlice(s.Namespace, s.Name)
	}
	e.zone.slices[key] = &s

	old, next := e.edit(s.Namespace, s.Service)
	if was, i := next.slice(s.Name); was != nil {
		next.slices[i] = &s
	} else {
		next.slices = slices.Insert(next.slices, i, &s)
	}
	e.swap(old, next)
}

// DeleteEndpointSlice removes a slice; one that is not there is none of its concern.
func (e *Edit) DeleteEndpointSlice(namespace, name string) {
	key := objectName{namespace, name}
	was := e.zone.slices[key]
	if was == nil {
		return
	}
	delete(e.zone.slices, key)
	old, next := e.edit(namespace, was.Service)
	_, i := next.slice(name)
	next.slices = slices.Delete(next.slices, i, i+1)
	e.swap(old, next)
}

// PutPod adds a pod or replaces the one of that name. One without addresses is none.
func (e *Edit) PutPod(p Pod) {
	name := objectName{p.Namespace, p.Name}
	if was := e.zone.pods[name]; was != nil && slices.Equal(was.Addrs, p.Addrs) {
		return
	}
	e.DeletePod(p.Namespace, p.Name)
	if len(p.Addrs) == 0 {
		return
	}
	e.zone.pods[name] = &p
	for _, addr := range p.Addrs {
		key := label(p.Namespace) + addrKey(addr)
		var pods []*Pod
		if old := e.next.pods.get(key); old != nil {
			pods = old.pods
		}
		e.next.pods.set(e.zone.gen, key, &podsAt{addr, append(slices.Clip(pods), &p)})
	}
}

// DeletePod removes a pod; one that is not there is none of its concern.
func (e *Edit) DeletePod(namespace, name string) {
	was := e.zone.pods[objectName{namespace, name}]
	if was == nil {
		return
	}
	delete(e.zone.pods, objectName{namespace, name})
	for _, addr := range was.Addrs {
		key := label(namespace) + addrKey(addr)
		old := e.next.pods.get(key)
		if old == nil {
			continue // the pod has the address twice
		}
		pods := slices.DeleteFunc(slices.Clone(old.pods), func(p *Pod) bool { return p == was })
		if len(pods) == 0 {
			e.next.pods.set(e.zone.gen, key, nil)
		} else {
			e.next.pods.set(e.zone.gen, key, &podsAt{addr, pods})
		}
	}
}

// edit returns the service as it is, nil if it is not known, and a copy to change.
func (e *Edit) edit(namespace, name string) (old, next *service) {
	old = e.next.services.get(string(serviceKey(new([maxKey]byte), namespace, name)))
	if old == nil {
		return nil, &service{identity: &identity{namespace, name}}
	}
	return old, &service{identity: old.identity, spec: old.spec, slices: slices.Clone(old.slices)}
}

// swap publishes next in the place of old, with the reverse names of both.
func (e *Edit) swap(old, next *service) {
	key := string(serviceKey(new([maxKey]byte), next.namespace, next.name))
	if next.spec == nil && len(next.slices) == 0 {
		e.next.services.set(e.zone.gen, key, nil)
	} else {
		e.next.services.set(e.zone.gen, key, next)
	}
	if had := old != nil && old.spec != nil; had != (next.spec != nil) {
		e.editNamespace(next.namespace, func(n *namespace) {
			if had {
				n.services--
			} else {
				n.services++
			}
		})
	}
	for addr, o := range clusterOwners(old) {
		e.disown(addr, o)
	}
	if old != nil {
		for _, was := range old.slices {
			now, _ := next.slice(was.Name)
			for ep := range missing(old, was, next, now) {
				if !next.holds(ep) {
					e.disown(ep.Addr, owner{id: next.identity, host: ep.Hostname})
				}
			}
		}
	}
	for addr, o := range clusterOwners(next) {
		e.own(addr, o)
	}
	for _, now := range next.slices {
		var was *EndpointSlice
		if old != nil {
			was, _ = old.slice(now.Name)
		}
		for ep := range missing(next, now, old, was) {
			e.own(ep.Addr, owner{id: next.identity, host: ep.Hostname})
		}
	}
}

// missing yields the endpoints that a has in slice as and b has not in bs.
func missing(a *service, as *EndpointSlice, b *service, bs *EndpointSlice) func(func(Endpoint) bool) {
	return func(yield func(Endpoint) bool) {
		j := 0
		for _, ep := range as.Endpoints {
			if !a.has(ep) {
				continue
			}
			found := false
			if bs != nil {
				for j < len(bs.Endpoints) && compareEndpoints(bs.Endpoints[j], ep) < 0 {
					j++
				}
				for k := j; k < len(bs.Endpoints) && compareEndpoints(bs.Endpoints[k], ep) == 0; k++ {
					found = found || b.has(bs.Endpoints[k])
				}
			}
			if !found && !yield(ep) {
				return
			}
		}
	}
}

// owner is a name that an address has: the Service's, for a cluster IP, or that of
// an endpoint.
type owner struct {
	id      *identity
	host    string // the endpoint's Hostname
	cluster bool
}

// compareOwners puts cluster IPs first, then names in order.
func compareOwners(a, b owner) int {
	if a.cluster != b.cluster {
		if a.cluster {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.id.namespace, b.id.namespace), cmp.Compare(a.id.name, b.id.name), cmp.Compare(a.host, b.host))
}

func clusterOwners(s *service) func(func(netip.Addr, owner) bool) {
	return func(yield func(netip.Addr, owner) bool) {
		if s == nil || s.spec == nil {
			return
		}
		for _, ip := range s.spec.ClusterIPs {
			if !yield(ip, owner{id: s.identity, cluster: true}) {
				return
			}
		}
	}
}

func (e *Edit) own(addr netip.Addr, o owner) {
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

func (e *Edit) disown(addr netip.Addr, o owner) {
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
