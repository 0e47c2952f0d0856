// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// PodMode selects the names that exist below pod.<zone>.
type PodMode uint8

// The modes, with the names of CoreDNS.
const (
	PodsDisabled PodMode = iota // none
	PodsInsecure                // every address that a pod can have, in every namespace that exists
	PodsVerified                // the addresses of the pods in the namespace
)

// Config configures a Zone.
type Config struct {
	// Domain is the cluster domain, such as cluster.local.
	Domain fqdn.Name

	// Pods selects the names below pod.<zone>. The zero value: PodsDisabled.
	Pods PodMode

	// Reverse are the ranges for whose reverse names the zone is authoritative: a name without an owner does not
	// exist, and all names outside of them are NotInZone. Empty: the zone has the reverse names of the cluster's
	// addresses alone, and other reverse names are NotInZone.
	Reverse []netip.Prefix

	// External are zones in which a Service has the name NAME.NAMESPACE with its External addresses. They may be in the
	// Domain, or the reverse: the longest zone that contains a name counts.
	External []fqdn.Name

	// Local are the addresses of the server. The name server of the zone is the Service that has one of them as an
	// endpoint; without one, it is ns.dns with these addresses.
	Local []netip.Addr
}

// Zone is the name tree. Update must not be called concurrently; Snapshot may be.
type Zone struct {
	config  *Config
	current atomic.Pointer[Snapshot]

	// Used by Update only.
	gen    uint64                        // number of the edit that is published next
	draft  Snapshot                      // after the last edit; published, or not loaded
	slices map[objectName]*EndpointSlice // all
	pods   map[objectName]*Pod           // all
}

type objectName struct{ namespace, name string }

// New returns an empty zone that is not loaded. The error is about the Config.
func New(config Config) (*Zone, error) {
	if config.Domain == "" || config.Domain == fqdn.Root {
		return nil, errors.New("cluster domain is empty")
	}
	z := &Zone{config: &config, gen: 1, slices: map[objectName]*EndpointSlice{}, pods: map[objectName]*Pod{}}
	z.draft.config = z.config
	z.current.Store(&Snapshot{config: z.config})
	return z, nil
}

// Empty returns a zone that contains no name, for a server without a cluster zone. It must not be updated.
func Empty() *Zone {
	z := &Zone{config: &Config{}}
	z.current.Store(&Snapshot{config: z.config, loaded: true})
	return z
}

// External returns the external zones, which must not be changed.
func (z *Zone) External() []fqdn.Name { return z.config.External }

// Snapshot returns the zone after the last edit; without objects until [Edit.SetLoaded] or [Edit.SetStale].
func (z *Zone) Snapshot() *Snapshot { return z.current.Load() }

// Update applies an edit atomically and sets the serial of the SOA record. If the present serial
// is newer (RFC 1982), it stays. An edit without a change keeps the Snapshot and its serial. Edits of a zone
// that is not loaded are published as one, when it is: they copy nothing.
func (z *Zone) Update(serial uint32, apply func(*Edit)) {
	now := z.current.Load()
	apply(&Edit{zone: z, next: &z.draft})
	if z.draft == *now {
		return
	}
	// Serial number arithmetic, RFC 1982 section 3.2.
	if int32(serial-z.draft.serial) > 0 {
		z.draft.serial = serial
	}
	next := z.draft
	if next.loaded || now.loaded {
		z.gen++
	} else {
		next = *now
		next.serial = z.draft.serial
	}
	z.current.Store(&next)
}

// Snapshot is the zone at one instant. It is immutable.
type Snapshot struct {
	config *Config
	serial uint32
	loaded bool
	stale  time.Time // time of the data, if loaded and stale; else zero

	namespaces tree[namespace] // by name
	services   tree[service]   // by serviceKey
	addrs      tree[owner]     // by addrKey: the first one
	pods       tree[addrPods]  // by labelKey of the namespace and addrKey
}

// Loaded reports whether the snapshot holds the whole cluster; see [Edit.SetLoaded].
func (s *Snapshot) Loaded() bool { return s.loaded }

// StaleSince returns the time of the data if it is stale, else the zero time; see
// [Edit.SetStale].
func (s *Snapshot) StaleSince() time.Time { return s.stale }

// Serial returns the serial of the SOA record.
func (s *Snapshot) Serial() uint32 { return s.serial }

// ShareService returns the Service of the snapshot that is equal to o, or o if there is none. It must not be changed.
func (s *Snapshot) ShareService(o *Service) *Service {
	if svc := s.service(o.Namespace, o.Name); svc.exists() && svc.spec.equal(o) {
		return svc.spec
	}
	return o
}

// ShareEndpointSlice is ShareService for a slice, whose endpoints it sorts.
func (s *Snapshot) ShareEndpointSlice(o *EndpointSlice) *EndpointSlice {
	slices.SortFunc(o.Endpoints, compareEndpoints)
	if svc := s.service(o.Namespace, o.Service); svc != nil {
		if slice, _ := findSlice(svc.slices, o.Name); slice != nil && slice.equal(o) {
			return slice
		}
	}
	return o
}

// SharePod is ShareService for a pod.
func (s *Snapshot) SharePod(o *Pod) *Pod {
	if at := s.pods.get(labelKey(o.Namespace) + addrKey(o.Addrs[0])); at != nil {
		for _, p := range at.pods {
			if p.Name == o.Name && slices.Equal(p.Addrs, o.Addrs) {
				return p
			}
		}
	}
	return o
}

// Namespaces yields the declared namespaces, sorted.
func (s *Snapshot) Namespaces() iter.Seq[string] {
	return func(yield func(string) bool) {
		for ns := range s.namespaces.all() {
			if ns.declared && !yield(ns.name) {
				return
			}
		}
	}
}

// Services yields the Services in a stable order. They must not be changed.
func (s *Snapshot) Services() iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for svc := range s.services.all() {
			if svc.spec != nil && !yield(svc.spec) {
				return
			}
		}
	}
}

// EndpointSlices yields the slices by Service, in the order of Services, and by name. They must not be changed.
func (s *Snapshot) EndpointSlices() iter.Seq[*EndpointSlice] {
	return func(yield func(*EndpointSlice) bool) {
		for svc := range s.services.all() {
			for _, slice := range svc.slices {
				if !yield(slice) {
					return
				}
			}
		}
	}
}

// Pods yields the pods, by namespace and address. They must not be changed.
func (s *Snapshot) Pods() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for at := range s.pods.all() {
			for _, p := range at.pods {
				if p.Addrs[0] == at.addr && !yield(p) {
					return
				}
			}
		}
	}
}
