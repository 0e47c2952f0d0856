// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// view holds the names and addresses of a service, computed from its slices on the first
// lookup.
type view struct {
	exists  bool         // the name exists
	alias   fqdn.Name    // of a Service of type ExternalName
	v4, v6  []netip.Addr // of the service's name, ascending
	named   []Endpoint   // with a hostname, by hostname and address
	unnamed []netip.Addr // of endpoints without a hostname, ascending
}

// lazyView is a view that is computed without a lock: two readers may compute it at the
// same time.
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
	v := &view{}
	all := slices.Clone(s.spec.ClusterIPs)
	for _, slice := range s.slices {
		for _, ep := range slice.Endpoints {
			switch {
			case !s.serves(ep):
				continue
			case ep.Hostname != "":
				v.named = append(v.named, ep)
			default:
				v.unnamed = append(v.unnamed, ep.Addr)
			}
			if s.spec.Headless() {
				all = append(all, ep.Addr)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	v.v4, v.v6 = splitFamilies(slices.Compact(all))
	slices.SortFunc(v.unnamed, netip.Addr.Compare)
	v.unnamed = slices.Compact(v.unnamed)
	slices.SortFunc(v.named, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), a.Addr.Compare(b.Addr))
	})
	v.named = slices.CompactFunc(v.named, func(a, b Endpoint) bool { return a.Hostname == b.Hostname && a.Addr == b.Addr })
	v.exists = len(all) > 0 || !s.spec.Headless() // specification 2.4.1
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

// hostAddrs returns the addresses of the endpoints with a label below the service.
func (v *view) hostAddrs(name string) (v4, v6 []netip.Addr) {
	i, found := slices.BinarySearchFunc(v.named, name, func(e Endpoint, name string) int { return cmp.Compare(e.Hostname, name) })
	var addrs []netip.Addr
	for ; found && i < len(v.named) && v.named[i].Hostname == name; i++ {
		addrs = append(addrs, v.named[i].Addr)
	}
	// A hostname may equal the label of another endpoint's address. The name has both.
	if addr, ok := parseAddrLabel(name); ok && addrLabel(addr) == name {
		if _, ok := slices.BinarySearchFunc(v.unnamed, addr, netip.Addr.Compare); ok {
			addrs = append(addrs, addr)
			slices.SortFunc(addrs, netip.Addr.Compare)
			addrs = slices.Compact(addrs)
		}
	}
	return splitFamilies(addrs)
}

// splitFamilies splits ascending addresses; netip sorts IPv4 first.
func splitFamilies(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	i := 0
	for i < len(addrs) && addrs[i].Is4() {
		i++
	}
	return addrs[:i:i], addrs[i:]
}
