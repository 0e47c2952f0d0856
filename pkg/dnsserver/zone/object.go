// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"
)

// Service has the fields of a Service that DNS needs. Strings are as in the API, in lower
// case. The zero value of a field means that it is unset.
type Service struct {
	Namespace string
	Name      string

	// ClusterIPs are the virtual addresses, at most one per family. A Service without
	// ClusterIPs and ExternalName is headless.
	ClusterIPs []netip.Addr

	// ExternalName is the target of a Service of type ExternalName. Such a Service has
	// no addresses, and its endpoints are ignored.
	ExternalName string

	Ports []Port

	// PublishNotReady is spec.publishNotReadyAddresses: endpoints that are not ready
	// have names, too.
	PublishNotReady bool
}

// headless reports whether the name of the Service owns the addresses of its endpoints.
func (s *Service) headless() bool { return len(s.ClusterIPs) == 0 && s.ExternalName == "" }

func (s *Service) equal(t *Service) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.ExternalName == t.ExternalName &&
		s.PublishNotReady == t.PublishNotReady && slices.Equal(s.ClusterIPs, t.ClusterIPs) && slices.Equal(s.Ports, t.Ports)
}

// Port is a port of a Service or of the endpoints in a slice. A port without a name has
// no record.
type Port struct {
	Name     string
	Protocol string // tcp, udp or sctp
	Number   uint16
}

// EndpointSlice has the fields of an EndpointSlice that DNS needs. A slice with the address type
// FQDN, or without a Service, has no records: the caller must not put it into a zone.
type EndpointSlice struct {
	Namespace string
	Name      string
	Service   string // label kubernetes.io/service-name
	Ports     []Port
	Endpoints []Endpoint // one per address
}

func (s *EndpointSlice) equal(t *EndpointSlice) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.Service == t.Service &&
		slices.Equal(s.Ports, t.Ports) && slices.Equal(s.Endpoints, t.Endpoints)
}

// named returns the number of endpoints with a hostname.
func (s *EndpointSlice) named() (n int) {
	for i := range s.Endpoints {
		if s.Endpoints[i].Hostname != "" {
			n++
		}
	}
	return n
}

// Endpoint is one address of an endpoint.
type Endpoint struct {
	Addr netip.Addr

	// Hostname is the label of the endpoint below the Service. If it is "", the label
	// is derived from the address.
	Hostname string

	// Ready is the condition; nil in the API means true.
	Ready bool
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Hostname, b.Hostname))
}

// Pod has the fields of a pod that DNS needs, in the mode PodsVerified only.
type Pod struct {
	Namespace string
	Name      string
	Addrs     []netip.Addr
}

// addrPods are the pods of a namespace that have an address.
type addrPods struct {
	addr netip.Addr
	pods []*Pod // in the order of PutPod
}

// namespace is a namespace that is declared or has Services. It is immutable once
// published.
type namespace struct {
	name     string
	declared bool // by PutNamespace
	services int
}

// service is a Service with its endpoints. It is immutable once published.
type service struct {
	*identity
	spec   *Service         // nil: only slices have been put
	slices []*EndpointSlice // ascending by name

	version uint64 // the number of the edit
	named   int    // endpoints with a hostname

	cachedView    lazyView
	cachedTargets lazyTargets
}

// identity is shared by all versions of a service and by its reverse names.
type identity struct {
	namespace, name string
}

// exists reports whether the Service itself has been put.
func (s *service) exists() bool { return s != nil && s.spec != nil }

// serves reports whether e is an endpoint of the Service.
func (s *service) serves(e Endpoint) bool {
	return s.exists() && s.spec.ExternalName == "" && (e.Ready || s.spec.PublishNotReady)
}

// findSlice returns the slice of that name, nil if there is none, and its index or the index at
// which to insert it.
func findSlice(list []*EndpointSlice, name string) (*EndpointSlice, int) {
	i, ok := slices.BinarySearchFunc(list, name, func(e *EndpointSlice, name string) int {
		return cmp.Compare(e.Name, name)
	})
	if !ok {
		return nil, i
	}
	return list[i], i
}
