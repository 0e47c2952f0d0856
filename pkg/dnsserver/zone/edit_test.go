// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// An edit without a change keeps the snapshot and its serial.
func TestUpdate_NoChange(t *testing.T) {
	z := newZone(t, Config{Pods: PodsVerified})
	put := func(e *Edit) {
		e.PutNamespace("a")
		e.PutService(Service{Namespace: "a", Name: "x", ClusterIPs: addrs("10.0.0.1"), Ports: []Port{{"p", "tcp", 1}}})
		e.PutEndpointSlice(EndpointSlice{Namespace: "a", Name: "x-1", Service: "x", Endpoints: []Endpoint{
			{netip.MustParseAddr("10.0.0.3"), "", true}, {netip.MustParseAddr("10.0.0.2"), "", true},
		}})
		e.PutPod(Pod{"a", "x-0", addrs("10.0.0.2")})
		e.SetLoaded()
	}
	z.Update(1, put)
	before := z.Snapshot()
	z.Update(2, put)
	z.Update(3, func(e *Edit) {
		e.DeleteNamespace("none")
		e.DeleteService("a", "none")
		e.DeleteEndpointSlice("a", "none")
		e.DeletePod("a", "none")
		e.PutPod(Pod{Namespace: "a", Name: "pending"})
	})
	if z.Snapshot() != before || before.Serial() != 1 {
		t.Errorf("the snapshot changed, serial %d", z.Snapshot().Serial())
	}
	z.Update(4, func(e *Edit) { e.DeletePod("a", "x-0") })
	if z.Snapshot() == before || z.Snapshot().Serial() != 4 {
		t.Errorf("a change was lost, serial %d", z.Snapshot().Serial())
	}
}

// An object that is equal to the one in the zone shares its memory, in whatever order its endpoints are; another one
// stays as it is.
func TestShare(t *testing.T) {
	z := newZone(t, Config{Pods: PodsVerified})
	service := func() *Service { return &Service{Namespace: "a", Name: "x", ClusterIPs: addrs("10.0.0.1")} }
	slice := func(ends ...string) *EndpointSlice {
		s := EndpointSlice{Namespace: "a", Name: "x-1", Service: "x"}
		for _, addr := range addrs(ends...) {
			s.Endpoints = append(s.Endpoints, Endpoint{addr, "", true})
		}
		return &s
	}
	pod := func() *Pod { return &Pod{"a", "x-0", addrs("10.0.0.2", "10.0.0.3")} }
	z.Update(1, func(e *Edit) {
		e.PutService(*service())
		e.PutEndpointSlice(*slice("10.0.0.2", "10.0.0.3"))
		e.PutPod(*pod())
		e.SetLoaded()
	})
	s := z.Snapshot()
	for i, pair := range [][2]any{
		{s.ShareService(service()), s.ShareService(service())},
		{s.ShareEndpointSlice(slice("10.0.0.2", "10.0.0.3")), s.ShareEndpointSlice(slice("10.0.0.3", "10.0.0.2"))},
		{s.SharePod(pod()), s.SharePod(pod())},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%d: equal objects are not shared", i)
		}
	}
	changed := service()
	changed.PublishNotReady = true
	moved := pod()
	moved.Addrs = moved.Addrs[:1]
	other := slice("10.0.0.2")
	if s.ShareService(changed) != changed || s.ShareEndpointSlice(other) != other || s.SharePod(moved) != moved {
		t.Error("a changed object was replaced by the one in the zone")
	}
}

// Pods yields each pod with an address once.
func TestPods_Once(t *testing.T) {
	z := newZone(t, Config{Pods: PodsVerified})
	names := func() (list []string) {
		for p := range z.Snapshot().Pods() {
			list = append(list, p.Namespace+"/"+p.Name)
		}
		return list
	}
	z.Update(1, func(e *Edit) {
		e.PutPod(Pod{"b", "one", addrs("10.0.0.1")})
		e.PutPod(Pod{"a", "two", addrs("10.0.0.1", "fd00::1")})
		e.PutPod(Pod{"b", "host", addrs("10.0.0.1")})
		e.SetLoaded()
	})
	if got := names(); !slices.Equal(got, []string{"a/two", "b/one", "b/host"}) {
		t.Errorf("got %v", got)
	}
	z.Update(2, func(e *Edit) {
		e.PutPod(Pod{Namespace: "b", Name: "host"})
		e.DeletePod("a", "two")
	})
	if got := names(); !slices.Equal(got, []string{"b/one"}) {
		t.Errorf("got %v", got)
	}
}

// TestUpdate_Unloaded: edits of a zone that is not loaded are published when it is, and those that follow change a copy.
func TestUpdate_Unloaded(t *testing.T) {
	z := newZone(t, Config{})
	count := func(s *Snapshot) int { return len(slices.Collect(s.Namespaces())) }
	put := func(name string, more ...func(*Edit)) *Snapshot {
		z.Update(1, func(e *Edit) {
			e.PutNamespace(name)
			for _, edit := range more {
				edit(e)
			}
		})
		return z.Snapshot()
	}
	empty, loaded := put("a"), put("b", (*Edit).SetLoaded)
	next := put("c")
	removed := put("d", (*Edit).SetUnloaded)
	again := put("e", (*Edit).SetLoaded)
	for i, s := range []*Snapshot{empty, loaded, next, removed, again} {
		if want := []int{0, 2, 3, 4, 5}[i]; count(s) != want {
			t.Errorf("edit %d: %d namespaces, want %d", i, count(s), want)
		}
	}
}

// TestUpdate_OneAddress: a slice with many endpoints at an address that has many more, as a tenant may write it, costs no
// copy of them for each.
func TestUpdate_OneAddress(t *testing.T) {
	const most = 1000 // endpoints in a slice
	z := newZone(t, Config{})
	put := func(name string) {
		s := EndpointSlice{Namespace: "a", Name: name, Service: "web"}
		for i := range most {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: addrs("10.0.0.1")[0], Hostname: fmt.Sprintf("%s-%d", name, i), Ready: true})
		}
		z.Update(1, func(e *Edit) {
			e.PutService(Service{Namespace: "a", Name: "web"})
			e.PutEndpointSlice(s)
			e.SetLoaded()
		})
	}
	put("first")
	n := 0
	if allocs := testing.AllocsPerRun(5, func() { n++; put(fmt.Sprint("more", n)) }); allocs > 10*most {
		t.Errorf("%.0f allocations, want at most ten for each endpoint", allocs)
	}
	name := must.Get(fqdn.ParseName("1.0.0.10.in-addr.arpa"))(t)
	if _, _, node := z.Snapshot().Lookup(name); len(node.PTR(10*most)) != 7*most {
		t.Errorf("%d names, want %d", len(node.PTR(10*most)), 7*most)
	}
}

func TestStaleSince_States(t *testing.T) {
	z := newZone(t, Config{})
	then := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		edit   func(*Edit)
		loaded bool
		stale  time.Time
	}{
		{func(*Edit) {}, false, time.Time{}},
		{func(e *Edit) { e.SetStale(then) }, true, then},
		{(*Edit).SetUnloaded, false, time.Time{}},
		{func(e *Edit) { e.SetStale(then) }, true, then},
		{(*Edit).SetLoaded, true, time.Time{}},
	} {
		z.Update(1, step.edit)
		if s := z.Snapshot(); s.Loaded() != step.loaded || !s.StaleSince().Equal(step.stale) {
			t.Errorf("loaded %t, stale %v; want %t, %v", s.Loaded(), s.StaleSince(), step.loaded, step.stale)
		}
	}
}

// Both sides of each limit.
func TestCheck_Limits(t *testing.T) {
	domain := func(n int) fqdn.Name { // of n bytes on the wire
		name := fqdn.Root
		for n > 64 {
			name = fqdn.Join(name, strings.Repeat("d", 30))
			n -= 31
		}
		return fqdn.Join(name, strings.Repeat("d", n-2))
	}
	l63, l64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	addr, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8:1111:1111:1111:1111:1111:1111")
	service := func(domain fqdn.Name, s Service) error { return s.Check(domain) }
	slice := func(domain fqdn.Name, ep Endpoint) error {
		s := EndpointSlice{Namespace: l63, Name: "any", Service: l63, Endpoints: []Endpoint{ep}}
		return s.Check(domain)
	}
	pod := func(p Pod) error { return p.Check(domain(30)) }
	tests := []struct {
		name string
		err  error
		want string // a part of it; "" for none
	}{
		{"longest labels", service(domain(30), Service{Namespace: l63, Name: l63}), ""},
		{"name too long", service(domain(30), Service{Namespace: l63, Name: l64}), "metadata.name"},
		{"namespace too long", service(domain(30), Service{Namespace: l64, Name: l63}), "metadata.namespace"},
		{"no label", service(domain(30), Service{Namespace: "a.b", Name: "x"}), "must not contain dots"},
		{"no name", service(domain(30), Service{Namespace: "a"}), "metadata.name"},
		{"255 bytes", service(domain(123), Service{Namespace: l63, Name: l63}), ""},
		{"256 bytes", service(domain(124), Service{Namespace: l63, Name: l63}), "256 bytes on the wire"},
		{"mapped address", service(domain(30), Service{Namespace: "a", Name: "x", ClusterIPs: addrs("::ffff:10.0.0.1")}),
			"spec.clusterIPs"},
		{"zoned address", service(domain(30), Service{Namespace: "a", Name: "x", ClusterIPs: addrs("fe80::1%eth0")}), "spec.clusterIPs"},
		{"mapped external address", service(domain(30), Service{Namespace: "a", Name: "x", External: &External{
			Addrs: addrs("::ffff:192.0.2.1")}}), "status.loadBalancer"},
		{"port", service(domain(30), Service{Namespace: "a", Name: "x", Ports: []Port{{"p", "sctp", 1}, {"", "tcp", 65535}}}), ""},
		{"port 0", service(domain(30), Service{Namespace: "a", Name: "x", Ports: []Port{{"p", "tcp", 0}}}), "spec.ports: port is 0"},
		{"port name", service(domain(30), Service{Namespace: "a", Name: "x", Ports: []Port{{"P", "tcp", 1}}}), `name "P"`},
		{"protocol", service(domain(30), Service{Namespace: "a", Name: "x", Ports: []Port{{"p", "TCP", 1}}}), `protocol "TCP"`},
		{"hostname", slice(domain(59), Endpoint{addr, l63, true}), ""},
		{"hostname too long", slice(domain(30), Endpoint{addr, l64, true}), "endpoints: hostname"},
		{"256 bytes with hostname", slice(domain(60), Endpoint{addr, l63, true}), "256 bytes"},
		{"address as a label", slice(domain(84), Endpoint{v6, "", true}), ""},
		{"256 bytes with the address", slice(domain(85), Endpoint{v6, "", true}), "256 bytes"},
		{"no address", slice(domain(30), Endpoint{}), "not an address"},
		{"namespace", CheckNamespace(domain(30), l63), ""},
		{"long namespace", CheckNamespace(domain(30), l64), "no more than 63"},
		{"pod", pod(Pod{"a", "x.y", addrs("10.0.0.1")}), ""},
		{"pod without address", pod(Pod{"a", "x", []netip.Addr{{}}}), "status.podIPs"},
		{"pod of no namespace", pod(Pod{"", "x", addrs("10.0.0.1")}), "metadata.namespace"},
	}
	for _, tt := range tests {
		if (tt.err == nil) != (tt.want == "") || tt.err != nil && !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}
