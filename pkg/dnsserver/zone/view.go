// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// view holds the addresses at the name of a service, computed from its slices on the first
// lookup.
type view struct {
	exists bool         // the name exists
	alias  fqdn.Name    // of a Service of type ExternalName
	v4, v6 []netip.Addr // of the service's name, ascending; empty if it is large
	large  bool         // more than maxSorted addresses: each lookup reads what it needs
}

// lazyView is a view that is computed when it is first read. It has no lock, so that two readers
// may compute the same view at the same time.
type lazyView struct{ value atomic.Pointer[view] }

// view returns the view of a service that exists.
func (s *service) view() *view {
	v := s.cachedView.value.Load()
	if v == nil {
		v = s.computeView()
		s.cachedView.value.Store(v)
	}
	return v
}

func (s *service) computeView() *view {
	if s.spec.ExternalName != "" {
		alias := parseAlias(s.spec.ExternalName)
		return &view{exists: alias != "", alias: alias}
	}
	if !s.spec.headless() {
		v := &view{exists: true}
		all := slices.Clone(s.spec.ClusterIPs)
		slices.SortFunc(all, netip.Addr.Compare)
		v.v4, v.v6 = splitFamilies(slices.Compact(all))
		return v
	}
	all := collectAddrs(nil, s.servedFirst(0, 0), maxSorted+1)
	if len(all) > maxSorted {
		return &view{exists: true, large: true}
	}
	v := &view{exists: len(all) > 0} // specification 2.4.1
	v.v4, v.v6 = splitFamilies(slices.Clip(all))
	return v
}

// parseAlias parses an ExternalName. It returns "" for an address and for an invalid name:
// neither can be the target of a CNAME record.
func parseAlias(name string) fqdn.Name {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	alias, err := fqdn.ParseName(name)
	if err != nil {
		return ""
	}
	return alias
}

// splitFamilies splits ascending addresses; netip sorts IPv4 first.
func splitFamilies(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	i := 0
	for i < len(addrs) && addrs[i].Is4() {
		i++
	}
	return addrs[:i:i], addrs[i:]
}
