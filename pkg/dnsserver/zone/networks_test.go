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
