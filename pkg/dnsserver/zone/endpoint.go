// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
)

// HasEndpoint reports whether an address is that of an endpoint of a Service. Endpoints that
// are not ready do not count, unless the Service has PublishNotReady.
func (s *Snapshot) HasEndpoint(namespace, service string, addr netip.Addr) bool {
	owners := s.addrs.get(addrKey(addr))
	return owners != nil && slices.ContainsFunc(*owners, func(o owner) bool {
		return !o.cluster && o.id.namespace == namespace && o.id.name == service
	})
}
