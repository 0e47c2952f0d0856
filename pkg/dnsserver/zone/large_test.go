// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// randomSlices returns slices with n distinct addresses of endpoints that are ready, and with
// others: not ready, or in two slices.
func randomSlices(rng *rand.Rand, n int) (list []EndpointSlice, ready map[netip.Addr]bool) {
	ready = map[netip.Addr]bool{}
	for i := range 1 + rng.IntN(30) {
		list = append(list, EndpointSlice{Namespace: "a", Name: fmt.Sprintf("x-%d", i), Service: "x",
			Ports: []Port{{Name: []string{"http", "dns"}[i%2], Protocol: "tcp", Number: uint16(80 + i%2)},
				{Name: "all", Protocol: "udp", Number: 53}}})
	}
	add := func(ep Endpoint) {
		s := &list[rng.IntN(len(list))]
		s.Endpoints = append(s.Endpoints, ep)
	}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		if rng.IntN(2) == 0 {
			addr = netip.AddrFrom16([16]byte{0xFD, 14: byte(i >> 8), 15: byte(i)})
		}
		ready[addr] = true
		add(Endpoint{Addr: addr, Ready: true})
		if rng.IntN(20) == 0 {
			add(Endpoint{Addr: addr, Ready: true})
		}
		if rng.IntN(5) == 0 {
			add(Endpoint{Addr: netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})})
		}
	}
	return list, ready
}

// TestLarge: up to maxSorted addresses are sorted. A larger set is read in parts: each lookup gets
// different addresses of endpoints that are ready, all of them if it asks for enough. The names and
// SRV records are the same in both forms.
func TestLarge(t *testing.T) {
	name := fqdn.Join(fqdn.Root, "x", "a", "svc", "cluster", "local")
	for seed := range uint64(9) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := []int{maxSorted, maxSorted + 1, maxSorted + rng.IntN(2*maxSorted)}[seed%3]
		list, ready := randomSlices(rng, n)
		z := newZone(t, Config{})
		z.Update(1, func(e *Edit) {
			e.PutService(Service{Namespace: "a", Name: "x"})
			for _, s := range list {
				e.PutEndpointSlice(s)
			}
			e.SetLoaded()
		})
		snapshot := z.Snapshot()
		status, _, node := snapshot.Lookup(name)
		if status != Exists || node.Large != (n > maxSorted) || node.Version() == 0 {
			t.Fatalf("seed %d: %d addresses: status %v, large %t", seed, n, status, node.Large)
		}
		all := slices.Concat(node.V4, node.V6)
		if node.Large {
			for _, limit := range []int{1, 78, n} {
				for _, is4 := range []bool{true, false} {
					part := node.Sample(nil, is4, limit)
					checkSample(t, ready, part, is4, limit)
					if limit == n {
						all = append(all, part...)
					}
				}
			}
		}
		if !sameAddrs(all, ready) {
			t.Fatalf("seed %d: got %d addresses, want %d", seed, len(all), len(ready))
		}
		checkTargets(t, snapshot, name, node, ready)
	}
}

func sameAddrs(list []netip.Addr, want map[netip.Addr]bool) bool {
	got := map[netip.Addr]bool{}
	for _, addr := range list {
		got[addr] = true
	}
	return len(list) == len(got) && maps.Equal(got, want)
}

func checkSample(t *testing.T, ready map[netip.Addr]bool, part []netip.Addr, is4 bool, limit int) {
	t.Helper()
	total, seen := 0, map[netip.Addr]bool{}
	for addr := range ready {
		if addr.Is4() == is4 {
			total++
		}
	}
	for _, addr := range part {
		if seen[addr] || !ready[addr] || addr.Is4() != is4 {
			t.Fatalf("sample of %d: got %v twice, not ready, or of the other family", limit, addr)
		}
		seen[addr] = true
	}
	if len(part) != min(limit, total) {
		t.Fatalf("sample of %d of %d addresses: got %d", limit, total, len(part))
	}
}

// checkTargets compares SRV records and the names of endpoints with those that all targets give.
func checkTargets(t *testing.T, s *Snapshot, name fqdn.Name, node Node, ready map[netip.Addr]bool) {
	t.Helper()
	full := map[string]bool{}
	for _, target := range node.svc.targets().endpoints {
		for _, p := range target.ports {
			full[fmt.Sprint(slices.Concat(target.V4, target.V6), p.Number)] = true
		}
	}
	for _, limit := range []int{20, 100_000} {
		got := map[string]bool{}
		set := node.SRV(limit)
		for target, port := range set.All(rand.IntN(set.Targets())) {
			record := fmt.Sprint(slices.Concat(target.V4, target.V6), port)
			if got[record] || !full[record] {
				t.Fatalf("SRV of at least %d: got %s twice, or wrong", limit, record)
			}
			got[record] = true
		}
		if len(got) < min(limit, len(full)) {
			t.Fatalf("SRV of at least %d of %d: got %d", limit, len(full), len(got))
		}
	}
	for i := range 50 {
		addr := netip.AddrFrom4([4]byte{10, byte(1 + i%3), 0, byte(i)})
		status, _, host := s.Lookup(fqdn.Join(name, addrLabel(addr)))
		if want := ready[addr]; (status == Exists) != want || want && !slices.Equal(host.V4, []netip.Addr{addr}) {
			t.Fatalf("%v: status %v, %v, want it to exist: %t", addr, status, host.V4, want)
		}
	}
	if status, _, _ := s.Lookup(fqdn.Join(name, "web-0")); status != NXDomain {
		t.Fatalf("a hostname that does not exist: status %v", status)
	}
}

// TestLarge_Hostnames: the endpoints of a large set may have hostnames, also one that is the label
// of another endpoint's address.
func TestLarge_Hostnames(t *testing.T) {
	z := newZone(t, Config{})
	s := EndpointSlice{Namespace: "a", Name: "x", Service: "x", Ports: []Port{{Name: "http", Protocol: "tcp", Number: 80}}}
	for i := range 2 * maxSorted {
		s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Ready: true})
	}
	s.Endpoints[0].Hostname, s.Endpoints[1].Hostname = "web-0", "10-0-0-2"
	z.Update(1, func(e *Edit) {
		e.PutService(Service{Namespace: "a", Name: "x"})
		e.PutEndpointSlice(s)
		e.SetLoaded()
	})
	name := fqdn.Join(fqdn.Root, "x", "a", "svc", "cluster", "local")
	for label, want := range map[string]string{"web-0": "[10.0.0.0]", "10-0-0-2": "[10.0.0.1 10.0.0.2]",
		"10-0-0-3": "[10.0.0.3]", "10-0-0-0": "[]"} {
		_, _, node := z.Snapshot().Lookup(fqdn.Join(name, label))
		if got := fmt.Sprint(node.V4); got != want {
			t.Errorf("%s: got %s, want %s", label, got, want)
		}
	}
	_, _, node := z.Snapshot().Lookup(name)
	if set := node.SRV(10); set.Targets() != 2*maxSorted-1 {
		t.Errorf("got %d targets, want %d", set.Targets(), 2*maxSorted-1)
	}
	next := s
	next.Endpoints = slices.Clone(s.Endpoints)
	next.Endpoints[0].Hostname, next.Endpoints[1].Hostname = "", ""
	z.Update(2, func(e *Edit) { e.PutEndpointSlice(next) })
	if _, _, node = z.Snapshot().Lookup(name); node.SRV(10).Targets() != 10 {
		t.Errorf("without hostnames: got %d targets, want 10", node.SRV(10).Targets())
	}
}
