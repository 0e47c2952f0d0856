// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"
)

// Service is what DNS needs to know of a Service. Strings are as in the API, in
// lower case; the zero value of a field is its absence.
type Service struct {
	Namespace string
	Name      string

	// ClusterIPs are the Service's virtual addresses, at most one of a family.
	// A Service that has neither these nor an ExternalName is headless.
	ClusterIPs []netip.Addr

	// ExternalName is the name that a Service of type ExternalName stands for.
	// Such a Service has no addresses and no endpoints, whatever slices say.
	ExternalName string

	Ports []Port

	// PublishNotReady gives names to endpoints that are not ready
	// (spec.publishNotReadyAddresses).
	PublishNotReady bool
}

// Headless reports whether the Service's name stands for its endpoints.
func (s *Service) Headless() bool { return len(s.ClusterIPs) == 0 && s.ExternalName == "" }

func (s *Service) equal(t *Service) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.ExternalName == t.ExternalName &&
		s.PublishNotReady == t.PublishNotReady && slices.Equal(s.ClusterIPs, t.ClusterIPs) && slices.Equal(s.Ports, t.Ports)
}

// Port is a port of a Service or of the endpoints in a slice. One without a name
// gives rise to no record.
type Port struct {
	Name     string
	Protocol string // tcp, udp or sctp
	Number   uint16
}

// EndpointSlice is what DNS needs to know of an EndpointSlice. Slices whose address
// type is FQDN are not for DNS, nor are those that name no Service.
type EndpointSlice struct {
	Namespace string
	Name      string
	Service   string // label kubernetes.io/service-name
	Ports     []Port
	Endpoints []Endpoint // one for each address
}

func (s *EndpointSlice) equal(t *EndpointSlice) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.Service == t.Service &&
		slices.Equal(s.Ports, t.Ports) && slices.Equal(s.Endpoints, t.Endpoints)
}

// Endpoint is one address of an endpoint.
type Endpoint struct {
	Addr netip.Addr

	// Hostname is the endpoint's name below the Service; "" gives it one that is
	// made of its address.
	Hostname string

	// Ready is the condition; the API's nil counts as true.
	Ready bool
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Hostname, b.Hostname))
}

// Pod is what DNS needs to know of a pod, and only if names of pods are verified.
type Pod struct {
	Namespace string
	Name      string
	Addrs     []netip.Addr
}

// podsAt are the pods of a namespace that have an address.
type podsAt struct {
	addr netip.Addr
	pods []*Pod // by the time at which they came
}

// namespace is one that exists, because its object does or a Service in it; immutable
// once published.
type namespace struct {
	name     string
	declared bool // its object has come
	services int
}

// service is a Service with its endpoints, immutable once published.
type service struct {
	*identity
	spec   *Service         // nil while only slices are known
	slices []*EndpointSlice // ascending by name

	view lazyView
}

// identity is shared by all versions of a service, and by the reverse names that
// point to it.
type identity struct {
	namespace, name string
}

// has reports whether e counts as one of the service's endpoints.
func (s *service) has(e Endpoint) bool {
	return s != nil && s.spec != nil && s.spec.ExternalName == "" && (e.Ready || s.spec.PublishNotReady)
}

// holds reports whether any slice has the endpoint. The same one may be in several
// while the controller moves it from one slice to another.
func (s *service) holds(e Endpoint) bool {
	if s == nil {
		return false
	}
	for _, slice := range s.slices {
		i, _ := slices.BinarySearchFunc(slice.Endpoints, e, compareEndpoints)
		for ; i < len(slice.Endpoints) && compareEndpoints(slice.Endpoints[i], e) == 0; i++ {
			if s.has(slice.Endpoints[i]) {
				return true
			}
		}
	}
	return false
}

// slice returns the slice of that name and where it is or would be.
func (s *service) slice(name string) (*EndpointSlice, int) {
	i, ok := slices.BinarySearchFunc(s.slices, name, func(e *EndpointSlice, name string) int {
		return cmp.Compare(e.Name, name)
	})
	if !ok {
		return nil, i
	}
	return s.slices[i], i
}
