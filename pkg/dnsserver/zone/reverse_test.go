// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestReverseZones(t *testing.T) {
	for _, tt := range []struct {
		network     string
		zones       int
		first, last string
	}{
		{"0.0.0.0/0", 1, "in-addr.arpa.", "in-addr.arpa."},
		{"10.0.0.0/8", 1, "10.in-addr.arpa.", "10.in-addr.arpa."},
		{"10.96.0.0/12", 16, "96.10.in-addr.arpa.", "111.10.in-addr.arpa."},
		{"10.128.0.0/9", 128, "128.10.in-addr.arpa.", "255.10.in-addr.arpa."},
		{"192.0.2.0/24", 1, "2.0.192.in-addr.arpa.", "2.0.192.in-addr.arpa."},
		{"192.0.2.8/31", 2, "8.2.0.192.in-addr.arpa.", "9.2.0.192.in-addr.arpa."},
		{"192.0.2.8/32", 1, "8.2.0.192.in-addr.arpa.", "8.2.0.192.in-addr.arpa."},
		{"::/0", 1, "ip6.arpa.", "ip6.arpa."},
		{"fc00::/7", 2, "c.f.ip6.arpa.", "d.f.ip6.arpa."},
		{"fe80::/10", 4, "8.e.f.ip6.arpa.", "b.e.f.ip6.arpa."},
		{"fd00:10::/29", 8, "0.1.0.0.0.d.f.ip6.arpa.", ""},
	} {
		zones := ReverseZones(netip.MustParsePrefix(tt.network))
		if len(zones) != tt.zones {
			t.Errorf("%s has the zones %v, want %d", tt.network, zones, tt.zones)
			continue
		}
		if got := fmt.Sprint(zones[0], zones[len(zones)-1]); tt.last != "" && got != fmt.Sprint(tt.first, tt.last) {
			t.Errorf("%s has the zones %v, want %s to %s", tt.network, zones, tt.first, tt.last)
		}
		// A lookup in the range has the same zones.
		z := newZone(t, Config{Reverse: prefixes(tt.network)})
		z.Update(1, (*Edit).SetLoaded)
		for _, name := range zones {
			if _, apex, node := z.Snapshot().Lookup(name); apex != name || !node.Apex {
				t.Errorf("%s: the zone of %v is %v", tt.network, name, apex)
			}
		}
	}
}

func TestNetworks(t *testing.T) {
	var many []string
	for i := range 2 * maxNetworks {
		many = append(many, fmt.Sprintf("%d.0.0.1", i))
	}
	for _, tt := range []struct{ name, addrs, want string }{
		{"none", "", "[]"},
		{"one", "10.96.0.1", "[10.96.0.0/16]"},
		{"Services of kubeadm", "10.96.0.1 10.96.0.10 10.103.7.9", "[10.96.0.0/13]"},
		{"the whole range of Services", "10.111.255.254 10.96.0.1", "[10.96.0.0/12]"},
		{"both sides of a /12", "10.95.255.255 10.96.0.0", "[10.95.0.0/16 10.96.0.0/16]"},
		{"both families", "fd00:10:96::1 10.96.0.1 fd00:10:96::a", "[10.96.0.0/16 fd00:10:96::/64]"},
		{"pods of nodes in IPv6", "fd00:244:0:1::2 fd00:244:0:2::2", "[fd00:244::/62]"},
		{"networks of their own", "192.0.2.1 10.244.1.2 192.0.2.9", "[10.244.0.0/16 192.0.0.0/16]"},
		{"more than the limit", strings.Join(many, " "), "[0.0.0.0/16 1.0.0.0/16 2.0.0.0/16 3.0.0.0/16 " +
			"4.0.0.0/16 5.0.0.0/16 6.0.0.0/16 7.0.0.0/16]"},
	} {
		var addrs []netip.Addr
		for _, text := range strings.Fields(tt.addrs) {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		if got := fmt.Sprint(Networks(slices.Values(addrs))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
