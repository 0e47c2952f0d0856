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

// view is what the name of a service and the names below it own, worked out from
// its slices by the first reader that asks.
type view struct {
	exists bool         // the name does
	alias  fqdn.Name    // of a Service of type ExternalName
	v4, v6 []netip.Addr // of the service's name, ascending
	named  []Endpoint   // with a hostname, by hostname and address
	bare   []netip.Addr // of those without, ascending
}

// lazyView makes no reader wait for another: two may work out the same.
type lazyView struct{ made atomic.Pointer[view] }

// look returns the view of a service whose spec is known.
func (s *service) look() *view {
	v := s.view.made.Load()
	if v == nil {
		v = s.makeView()
		s.view.made.Store(v)
	}
	return v
}

func (s *service) makeView() *view {
	if s.spec.ExternalName != "" {
		alias := parseAlias(s.spec.ExternalName)
		return &view{exists: alias != "", alias: alias}
	}
	v := &view{}
	all := slices.Clone(s.spec.ClusterIPs)
	for _, slice := range s.slices {
		for _, ep := range slice.Endpoints {
			switch {
			case !s.has(ep):
				continue
			case ep.Hostname != "":
				v.named = append(v.named, ep)
			default:
				v.bare = append(v.bare, ep.Addr)
			}
			if s.spec.Headless() {
				all = append(all, ep.Addr)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	v.v4, v.v6 = families(slices.Compact(all))
	slices.SortFunc(v.bare, netip.Addr.Compare)
	v.bare = slices.Compact(v.bare)
	slices.SortFunc(v.named, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), a.Addr.Compare(b.Addr))
	})
	v.named = slices.CompactFunc(v.named, func(a, b Endpoint) bool { return a.Hostname == b.Hostname && a.Addr == b.Addr })
	v.exists = len(all) > 0 || !s.spec.Headless() // specification 2.4.1
	return v
}

// parseAlias reads an ExternalName. An address is no name to point to, and what is no
// name at all cannot be told to a client: they give "".
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

// host returns the addresses of the endpoint that has the name.
func (v *view) host(name string) (v4, v6 []netip.Addr) {
	i, found := slices.BinarySearchFunc(v.named, name, func(e Endpoint, name string) int { return cmp.Compare(e.Hostname, name) })
	var addrs []netip.Addr
	for ; found && i < len(v.named) && v.named[i].Hostname == name; i++ {
		addrs = append(addrs, v.named[i].Addr)
	}
	// A hostname may look like another endpoint's address; the name then has both.
	if addr, ok := parseDashed(name); ok && dashed(addr) == name {
		if _, ok := slices.BinarySearchFunc(v.bare, addr, netip.Addr.Compare); ok {
			addrs = append(addrs, addr)
			slices.SortFunc(addrs, netip.Addr.Compare)
			addrs = slices.Compact(addrs)
		}
	}
	return families(addrs)
}

// families cuts ascending addresses in two: netip sorts IPv4 first.
func families(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	i := 0
	for i < len(addrs) && addrs[i].Is4() {
		i++
	}
	return addrs[:i:i], addrs[i:]
}
