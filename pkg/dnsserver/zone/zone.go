// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// PodMode says which names exist below pod.<zone>.
type PodMode uint8

// The modes, as other cluster DNS servers call them.
const (
	PodsDisabled PodMode = iota // none
	PodsInsecure                // any address, in any namespace that exists
	PodsVerified                // the addresses of the namespace's pods
)

// Config is what a Zone serves.
type Config struct {
	// Domain is the cluster's domain, such as cluster.local.
	Domain fqdn.Name

	Pods PodMode

	// Reverse are the ranges whose reverse names nobody else knows: unknown ones
	// do not exist. Empty: there are none, and whatever the cluster does not
	// know is NotOurs.
	Reverse []netip.Prefix

	// Local are the addresses at which the server is reached; the zone's name
	// server is the Service that has one of them for an endpoint, or else the
	// addresses themselves.
	Local []netip.Addr
}

// Zone is the name tree. Update is for one goroutine, Snapshot for any number.
type Zone struct {
	config  *Config
	current atomic.Pointer[Snapshot]

	// The writer's own: the number of the last edit, and where the slices and
	// pods are by their names.
	gen    uint64
	slices map[objectName]*EndpointSlice
	pods   map[objectName]*Pod
}

type objectName struct{ namespace, name string }

// New returns an empty zone that is not loaded. The error is about the Config.
func New(config Config) (*Zone, error) {
	if config.Domain == "" || config.Domain == fqdn.Root {
		return nil, fmt.Errorf("the cluster's domain is missing")
	}
	z := &Zone{config: &config, slices: map[objectName]*EndpointSlice{}, pods: map[objectName]*Pod{}}
	z.current.Store(&Snapshot{config: z.config})
	return z, nil
}

// Empty returns a zone that no name is in, for servers that have none of their own. It is
// not to be updated.
func Empty() *Zone {
	z := &Zone{config: &Config{}}
	z.current.Store(&Snapshot{config: z.config, loaded: true})
	return z
}

// Snapshot returns the zone as the last edit left it.
func (z *Zone) Snapshot() *Snapshot { return z.current.Load() }

// Update applies an edit; readers see all of it or nothing. The serial becomes that
// of the zone's SOA record, unless it is older than the present one. An edit that
// changes nothing leaves the Snapshot and its serial as they are.
func (z *Zone) Update(serial uint32, apply func(*Edit)) {
	z.gen++
	now := z.current.Load()
	next := *now
	apply(&Edit{zone: z, next: &next})
	if next == *now {
		return
	}
	// Serial number arithmetic, RFC 1982 section 3.2.
	if int32(serial-next.serial) > 0 {
		next.serial = serial
	}
	z.current.Store(&next)
}

// Snapshot is the zone at one instant. It is safe for any number of goroutines.
type Snapshot struct {
	config *Config
	serial uint32
	loaded bool
	stale  time.Time // loaded, but with the cluster of that time; else zero

	namespaces tree[namespace] // the name
	services   tree[service]   // serviceKey
	addrs      tree[[]owner]   // reverse names, see addrKey
	pods       tree[podsAt]    // namespace, a label, and addrKey
}

// Loaded reports whether the snapshot holds the whole cluster; see [Edit.SetLoaded].
func (s *Snapshot) Loaded() bool { return s.loaded }

// StaleSince returns the time of the data when it is known to be old, and otherwise the
// zero time; see [Edit.SetStale].
func (s *Snapshot) StaleSince() time.Time { return s.stale }

// Serial is that of the SOA record.
func (s *Snapshot) Serial() uint32 { return s.serial }

// Namespaces yields the names of the namespaces that were put, in order.
func (s *Snapshot) Namespaces() iter.Seq[string] {
	return func(yield func(string) bool) {
		for ns := range s.namespaces.all() {
			if ns.declared && !yield(ns.name) {
				return
			}
		}
	}
}

// Services yields the Services, in an order that is always the same. They must not be
// changed.
func (s *Snapshot) Services() iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for svc := range s.services.all() {
			if svc.spec != nil && !yield(svc.spec) {
				return
			}
		}
	}
}

// EndpointSlices yields the slices, by Service, in the order of Services, and name. They
// must not be changed.
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
