// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The records of each name of a small cluster. The clauses are those of the specification;
// where it is silent, RFC 8020 applies: a name above an existing one exists.
func TestLookup_Records(t *testing.T) {
	z := newZone(t, Config{Reverse: prefixes("10.96.0.0/12", "10.244.0.0/16", "fd00::/64"), Local: addrs("10.244.9.9"), Pods: PodsInsecure})
	z.Update(1, func(e *Edit) {
		e.PutNamespace("default")
		e.PutNamespace("empty")
		e.PutService(Service{Namespace: "default", Name: "web", ClusterIPs: addrs("10.96.0.7", "fd00::7"), Ports: []Port{
			{"http", "tcp", 80}, {"dns", "udp", 53}, {"", "tcp", 81},
		}})
		e.PutEndpointSlice(EndpointSlice{Namespace: "default", Name: "web-1", Service: "web",
			Ports: []Port{{"http", "tcp", 8080}}, Endpoints: []Endpoint{
				{netip.MustParseAddr("10.244.0.1"), "", true},
			}})
		e.PutService(Service{Namespace: "default", Name: "db", Ports: []Port{{"sql", "tcp", 5432}}})
		e.PutEndpointSlice(EndpointSlice{Namespace: "default", Name: "db-1", Service: "db",
			Ports: []Port{{"sql", "tcp", 15432}}, Endpoints: []Endpoint{
				{netip.MustParseAddr("10.244.0.3"), "db-1", true},
				{netip.MustParseAddr("10.244.0.2"), "db-0", true},
				{netip.MustParseAddr("10.244.0.4"), "db-2", false},
				{netip.MustParseAddr("10.244.0.5"), "", true},
				{netip.MustParseAddr("fd00::"), "", true},
			}})
		e.PutService(Service{Namespace: "default", Name: "down"})
		e.PutService(Service{Namespace: "default", Name: "ext", ExternalName: "WWW.example.com"})
		e.PutService(Service{Namespace: "default", Name: "ip", ExternalName: "192.0.2.1"})
		e.PutService(Service{Namespace: "kube-system", Name: "kube-dns", ClusterIPs: addrs("10.96.0.10")})
		e.PutEndpointSlice(EndpointSlice{Namespace: "kube-system", Name: "kube-dns-1", Service: "kube-dns", Endpoints: []Endpoint{
			{netip.MustParseAddr("10.244.9.9"), "", true},
		}})
		e.PutEndpointSlice(EndpointSlice{Namespace: "gone", Name: "orphan", Service: "orphan", Endpoints: []Endpoint{
			{netip.MustParseAddr("10.244.0.6"), "", true},
		}})
		e.SetLoaded()
	})
	tests := []struct{ clause, name, want string }{
		{"2.2 the schema's version", "dns-version.cluster.local", "TXT 1.1.0"},
		{"2.3.1 a cluster IP of either family", "web.default.svc.cluster.local",
			"A 10.96.0.7, AAAA fd00::7, SRV 50 53 web.default.svc.cluster.local., SRV 50 80 web.default.svc.cluster.local."},
		{"2.1 comparisons are case-insensitive", "WEB.Default.svc.cluster.LOCAL",
			"A 10.96.0.7, AAAA fd00::7, SRV 50 53 web.default.svc.cluster.local., SRV 50 80 web.default.svc.cluster.local."},
		{"2.3.2 a named port", "_http._tcp.web.default.svc.cluster.local", "SRV 100 80 web.default.svc.cluster.local."},
		{"2.3.2 of another protocol", "_http._udp.web.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.3.2 an unnamed port has no record", "_._tcp.web.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"an underscore is part of the name", "http.tcp.web.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"the protocol is a name above a port's", "_tcp.web.default.svc.cluster.local", "exists"},
		{"no port has the protocol", "_sctp.web.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.3.3 a cluster IP's name", "7.0.96.10.in-addr.arpa", "PTR web.default.svc.cluster.local."},
		{"2.3.3 of IPv6", "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", "PTR web.default.svc.cluster.local."},
		{"an endpoint behind a cluster IP", "10-244-0-1.web.default.svc.cluster.local", "A 10.244.0.1"},
		{"and its reverse name", "1.0.244.10.in-addr.arpa", "PTR 10-244-0-1.web.default.svc.cluster.local."},
		{"2.4.1 ready endpoints", "db.default.svc.cluster.local", "A 10.244.0.2, A 10.244.0.3, A 10.244.0.5, AAAA fd00::, " +
			"SRV 25 15432 db-0.db.default.svc.cluster.local., SRV 25 15432 db-1.db.default.svc.cluster.local., " +
			"SRV 25 15432 10-244-0-5.db.default.svc.cluster.local., SRV 25 15432 fd00--0.db.default.svc.cluster.local."},
		{"2.4.1 a hostname", "db-0.db.default.svc.cluster.local", "A 10.244.0.2"},
		{"2.4.1 one that is not ready", "db-2.db.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.4.1 an endpoint without hostname", "10-244-0-5.db.default.svc.cluster.local", "A 10.244.0.5"},
		{"a label does not end with a dash", "fd00--0.db.default.svc.cluster.local", "AAAA fd00::"},
		{"and has one spelling", "fd00-0--0.db.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.4.1 an endpoint with hostname has no other name", "10-244-0-2.db.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.4.1 no ready endpoint", "down.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"2.4.2 at the endpoint's own port", "_sql._tcp.db.default.svc.cluster.local", "SRV 25 15432 db-0.db.default.svc.cluster.local., " +
			"SRV 25 15432 db-1.db.default.svc.cluster.local., SRV 25 15432 " +
			"10-244-0-5.db.default.svc.cluster.local., SRV 25 15432 fd00--0.db.default.svc.cluster.local."},
		{"2.4.3 by hostname", "3.0.244.10.in-addr.arpa", "PTR db-1.db.default.svc.cluster.local."},
		{"2.4.3 not ready", "4.0.244.10.in-addr.arpa", "NXDOMAIN in 244.10.in-addr.arpa."},
		{"2.5 an external name", "ext.default.svc.cluster.local", "CNAME www.example.com."},
		{"an address is not a name", "ip.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"nothing below an external name", "a.ext.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"a namespace", "default.svc.cluster.local", "exists"},
		{"one without Services", "empty.svc.cluster.local", "exists"},
		{"one that came with its Service only", "kube-system.svc.cluster.local", "exists"},
		{"none", "none.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"slices alone are no Service", "orphan.gone.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"nor make a namespace", "gone.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"nor have a reverse name", "6.0.244.10.in-addr.arpa", "NXDOMAIN in 244.10.in-addr.arpa."},
		{"the zone", "cluster.local", "apex kube-dns.kube-system.svc.cluster.local."},
		{"its server", "ns.dns.cluster.local", "A 10.96.0.10"},
		{"above it", "dns.cluster.local", "exists"},
		{"svc", "svc.cluster.local", "exists"},
		{"pod", "pod.cluster.local", "exists"},
		{"a namespace of pods", "default.pod.cluster.local", "exists"},
		{"a pod", "10-244-3-4.default.pod.cluster.local", "A 10.244.3.4"},
		{"a pod of IPv6", "fd00--1-2.default.pod.cluster.local", "AAAA fd00::1:2"},
		{"no address", "10-244-3.default.pod.cluster.local", "NXDOMAIN in cluster.local."},
		{"an address of no pod's namespace", "10-244-3-4.none.pod.cluster.local", "NXDOMAIN in cluster.local."},
		{"anything else in the zone", "www.cluster.local", "NXDOMAIN in cluster.local."},
		{"too deep", "a._http._tcp.web.default.svc.cluster.local", "NXDOMAIN in cluster.local."},
		{"outside", "example.com", "not in zone"},
		{"a longer label", "xcluster.local", "not in zone"},
		{"a range that ends inside a label", "1.100.10.in-addr.arpa", "NXDOMAIN in 100.10.in-addr.arpa."},
		{"above the range, and above an address", "10.in-addr.arpa", "not in zone"},
		{"a part of the range", "96.10.in-addr.arpa", "apex kube-dns.kube-system.svc.cluster.local."},
		{"reverse names above an address", "0.96.10.in-addr.arpa", "exists"},
		{"other reverse names", "1.2.0.192.in-addr.arpa", "not in zone"},
		{"no number", "x.0.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa."},
		{"another spelling of a number", "07.0.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa."},
		{"below an address", "1.7.0.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa."},
		{"two nibbles in one label", "07.0.0.d.f.ip6.arpa", "not in zone"},
	}
	for _, tt := range tests {
		if got := describe(t, z.Snapshot(), tt.name); got != tt.want {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.clause, tt.name, got, tt.want)
		}
	}
}

// TestLookup_Reverse looks up the reverse names at, above and below each range and address. The
// zone has authority over the ranges alone, or without ranges over the addresses of the cluster.
func TestLookup_Reverse(t *testing.T) {
	const apex = "apex ns.dns.cluster.local."
	tests := []struct{ name, withRanges, without string }{
		{"in-addr.arpa", "not in zone", "not in zone"},
		{"10.in-addr.arpa", "not in zone", "not in zone"},
		{"95.10.in-addr.arpa", "not in zone", "not in zone"},
		{"96.10.in-addr.arpa", apex, "not in zone"},
		{"111.10.in-addr.arpa", apex, "not in zone"},
		{"112.10.in-addr.arpa", "not in zone", "not in zone"},
		{"0.96.10.in-addr.arpa", "exists", "not in zone"},
		{"9.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa.", "not in zone"},
		{"7.0.96.10.in-addr.arpa", "PTR web.default.svc.cluster.local.", "PTR web.default.svc.cluster.local."},
		{"8.0.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa.", "not in zone"},
		{"x.96.10.in-addr.arpa", "NXDOMAIN in 96.10.in-addr.arpa.", "not in zone"},
		// A range within another one is a zone of its own.
		{"7.99.10.in-addr.arpa", apex, "not in zone"},
		{"1.7.99.10.in-addr.arpa", "NXDOMAIN in 7.99.10.in-addr.arpa.", "not in zone"},
		// A range of one address.
		{"1.1.168.192.in-addr.arpa", "PTR 192-168-1-1.web.default.svc.cluster.local., " + apex,
			"PTR 192-168-1-1.web.default.svc.cluster.local."},
		{"1.168.192.in-addr.arpa", "not in zone", "not in zone"},
		{"0.d.f.ip6.arpa", "not in zone", "not in zone"},
		{"0.0.d.f.ip6.arpa", apex, "not in zone"},
		{"1.0.0.d.f.ip6.arpa", "NXDOMAIN in 0.0.d.f.ip6.arpa.", "not in zone"},
		// A tenant's endpoint with a public address.
		{"8.in-addr.arpa", "not in zone", "not in zone"},
		{"8.8.8.in-addr.arpa", "not in zone", "not in zone"},
		{"8.8.8.8.in-addr.arpa", "not in zone", "PTR 8-8-8-8.web.default.svc.cluster.local."},
	}
	for _, tt := range tests {
		for _, c := range []struct {
			reverse []netip.Prefix
			want    string
		}{{prefixes("10.96.0.0/12", "10.99.7.0/24", "fd00::/16", "192.168.1.1/32"), tt.withRanges}, {nil, tt.without}} {
			z := newZone(t, Config{Reverse: c.reverse})
			z.Update(1, func(e *Edit) {
				e.PutService(Service{Namespace: "default", Name: "web", ClusterIPs: addrs("10.96.0.7")})
				e.PutEndpointSlice(EndpointSlice{Namespace: "default", Name: "web-1", Service: "web", Endpoints: []Endpoint{
					{Addr: netip.MustParseAddr("8.8.8.8"), Ready: true}, {Addr: netip.MustParseAddr("192.168.1.1"), Ready: true}}})
				e.SetLoaded()
			})
			if got := describe(t, z.Snapshot(), tt.name); got != c.want {
				t.Errorf("%s with the ranges %v: got %s, want %s", tt.name, c.reverse, got, c.want)
			}
		}
	}
}

// In the mode PodsInsecure, names exist for the addresses that a pod can have.
func TestLookup_PodAddresses(t *testing.T) {
	tests := []struct {
		label             string
		anywhere, inRange bool // without and with reverse ranges
	}{
		{"10-244-0-0", true, true},
		{"10-244-255-255", true, true},
		{"10-245-0-0", true, false},
		{"8-8-8-8", true, false},
		{"100-64-0-1", true, false},
		{"fd00--1", true, true},
		{"fd01--1", true, false},
		{"2001-db8--1", true, false},
		{"127-0-0-1", false, false},
		{"127-255-255-254", false, false},
		{"169-254-169-254", false, false},
		{"224-0-0-251", false, false},
		{"239-255-255-255", false, false},
		{"255-255-255-255", false, false},
		{"0-0-0-0", false, false},
		{"0-1-2-3", false, false},
		{"1-0-0-0", true, false},
		{"--1", false, false},
		{"--0", false, false},
		{"fe80--1", false, false},
		{"febf--1", false, false},
		{"fec0--1", true, false},
		{"ff02--fb", false, false},
		{"--ffff-7f00-1", false, false},
		{"--ffff-af4-1", false, false},
	}
	for _, reverse := range [][]netip.Prefix{nil, prefixes("10.244.0.0/16", "fd00::/64")} {
		z := newZone(t, Config{Pods: PodsInsecure, Reverse: reverse})
		z.Update(1, func(e *Edit) { e.PutNamespace("default"); e.SetLoaded() })
		for _, tt := range tests {
			want := tt.anywhere
			if reverse != nil {
				want = tt.inRange
			}
			if got := describe(t, z.Snapshot(), tt.label+".default.pod.cluster.local"); (got == "NXDOMAIN in cluster.local.") == want {
				t.Errorf("%s with ranges %v: got %s, want it to exist: %t", tt.label, reverse, got, want)
			}
		}
	}
}

// Before the zone is loaded no name is NXDomain.
func TestLookup_Unloaded(t *testing.T) {
	tests := []struct {
		name    string
		reverse []netip.Prefix
		want    string
	}{
		{"web.default.svc.cluster.local", nil, "unknown"},
		{"cluster.local", nil, "unknown"},
		{"example.com", nil, "not in zone"},
		{"1.0.96.10.in-addr.arpa", nil, "unknown"},
		{"1.0.31.172.in-addr.arpa", nil, "unknown"},
		{"1.0.32.172.in-addr.arpa", nil, "not in zone"},
		{"0.d.f.ip6.arpa", nil, "not in zone"},
		{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", nil, "unknown"},
		{"96.10.in-addr.arpa", nil, "not in zone"},
		{"96.10.in-addr.arpa", prefixes("10.96.0.0/12"), "unknown"},
		{"1.0.96.10.in-addr.arpa", prefixes("10.96.0.0/12"), "unknown"},
		{"1.0.0.10.in-addr.arpa", prefixes("10.96.0.0/12"), "not in zone"},
		{"x.0.96.10.in-addr.arpa", prefixes("10.96.0.0/12"), "unknown"},
	}
	for _, tt := range tests {
		z := newZone(t, Config{Reverse: tt.reverse})
		if got := describe(t, z.Snapshot(), tt.name); got != tt.want {
			t.Errorf("%s with ranges %v = %s, want %s", tt.name, tt.reverse, got, tt.want)
		}
	}
}

// After random edits the zone equals one built from its objects at once: the order of
// edits does not matter.
func TestUpdate_RandomEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	z := newZone(t, Config{Pods: PodsVerified, Reverse: prefixes("10.0.0.0/8")})
	objects := map[string]func(*Edit){}
	for step := range uint32(3000) {
		ns, name := pick("a", "b"), pick("x", "y")
		put, key := func(*Edit) {}, ""
		remove := func(*Edit) {}
		switch random.IntN(4) {
		case 0:
			key = "ns " + ns
			put = func(e *Edit) { e.PutNamespace(ns) }
			remove = func(e *Edit) { e.DeleteNamespace(ns) }
		case 1:
			key = "svc " + ns + name
			s := Service{Namespace: ns, Name: name, PublishNotReady: random.IntN(3) == 0, Ports: []Port{{pick("", "p"), "tcp", 1}}}
			switch random.IntN(3) {
			case 0:
				s.ClusterIPs = addrs("10.0.0." + pick("1", "2", "3"))
			case 1:
				s.ExternalName = pick("", "e.example")
			}
			put = func(e *Edit) { e.PutService(s) }
			remove = func(e *Edit) { e.DeleteService(ns, name) }
		case 2:
			slice := EndpointSlice{Namespace: ns, Name: pick("s1", "s2", "s3"), Service: name, Ports: []Port{{pick("", "p"), "tcp", 2}}}
			for range random.IntN(4) {
				slice.Endpoints = append(slice.Endpoints,
					Endpoint{addrs("10.0.0." + pick("1", "2", "3", "4"))[0], pick("", "", "h"), random.IntN(3) > 0})
			}
			key = "slice " + ns + slice.Name
			put = func(e *Edit) { s := slice; s.Endpoints = slices.Clone(s.Endpoints); e.PutEndpointSlice(s) }
			remove = func(e *Edit) { e.DeleteEndpointSlice(ns, slice.Name) }
		case 3:
			key = "pod " + ns + name
			p := Pod{ns, name, addrs("10.0.0."+pick("1", "2"), "10.0.0."+pick("1", "2"))}
			put = func(e *Edit) { e.PutPod(p) }
			remove = func(e *Edit) { e.DeletePod(ns, name) }
		}
		if random.IntN(3) == 0 {
			z.Update(step, remove)
			delete(objects, key)
		} else {
			z.Update(step, put)
			objects[key] = put
		}
		z.Update(step, (*Edit).SetLoaded)
		if step%10 == 0 {
			checkEdit(t, z.Snapshot(), objects)
		}
	}
}

func checkEdit(t *testing.T, got *Snapshot, objects map[string]func(*Edit)) {
	t.Helper()
	fresh := newZone(t, *got.config)
	fresh.Update(0, func(e *Edit) {
		for _, put := range objects {
			put(e)
		}
		e.SetLoaded()
	})
	names := []string{"10.in-addr.arpa", "0.0.10.in-addr.arpa"}
	for i := range 5 {
		names = append(names, fmt.Sprintf("%d.0.0.10.in-addr.arpa", i))
	}
	for _, ns := range []string{"a", "b"} {
		names = append(names, ns+".svc.cluster.local", "10-0-0-1."+ns+".pod.cluster.local", "10-0-0-2."+ns+".pod.cluster.local")
		for _, svc := range []string{"x", "y"} {
			for _, below := range []string{"", "h.", "10-0-0-1.", "10-0-0-4.", "_tcp.", "_p._tcp."} {
				names = append(names, below+svc+"."+ns+".svc.cluster.local")
			}
		}
	}
	for _, name := range names {
		if g, w := describe(t, got, name), describe(t, fresh.Snapshot(), name); g != w {
			t.Fatalf("after %d edits, %s:\n got %s\nwant %s", got.serial, name, g, w)
		}
	}
}

// describe returns the result of a lookup as text.
func describe(t *testing.T, s *Snapshot, text string) string {
	t.Helper()
	name, err := fqdn.ParseName(text)
	if err != nil {
		t.Fatalf("%s %v", text, err)
	}
	status, zone, n := s.Lookup(name)
	switch status {
	case NotInZone:
		return "not in zone"
	case Unknown:
		return "unknown"
	case NXDomain:
		return "NXDOMAIN in " + zone.String()
	}
	var parts []string
	for _, a := range n.V4 {
		parts = append(parts, "A "+a.String())
	}
	for _, a := range n.V6 {
		parts = append(parts, "AAAA "+a.String())
	}
	set := n.SRV(100)
	for t, port := range set.All(0) {
		parts = append(parts, fmt.Sprintf("SRV %d %d %s", set.Weight(), port, set.Name(t)))
	}
	for _, p := range n.PTR(100) {
		parts = append(parts, "PTR "+p.String())
	}
	for _, server := range n.NS() {
		parts = append(parts, "apex "+server.Name.String())
	}
	if n.Alias != "" {
		parts = append(parts, "CNAME "+n.Alias.String())
	}
	if n.Text != "" {
		parts = append(parts, "TXT "+n.Text)
	}
	if len(parts) == 0 {
		return "exists"
	}
	return strings.Join(parts, ", ")
}

func newZone(t testing.TB, c Config) *Zone {
	t.Helper()
	c.Domain = fqdn.Join(fqdn.Root, "cluster", "local")
	z, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, s := range texts {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// largeZone returns a zone with n Services and their names. Of 10,000, hundreds have the
// same hash as another.
func largeZone(t testing.TB, n int) (*Zone, []fqdn.Name) {
	z := newZone(t, Config{})
	names := make([]fqdn.Name, n)
	z.Update(1, func(e *Edit) {
		for i := range names {
			namespace, name := fmt.Sprintf("team-%d", i%100), fmt.Sprintf("service-%d", i)
			e.PutService(Service{Namespace: namespace, Name: name, ClusterIPs: []netip.Addr{clusterIP(i)}})
			names[i] = fqdn.Join(fqdn.Root, name, namespace, "svc", "cluster", "local")
		}
		e.SetLoaded()
	})
	return z, names
}

func clusterIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}) }

// Every other of many Services is deleted.
func TestLookup_EqualHashes(t *testing.T) {
	z, names := largeZone(t, 10_000)
	whole := z.Snapshot()
	z.Update(2, func(e *Edit) {
		for i := 0; i < len(names); i += 2 {
			e.DeleteService(fmt.Sprintf("team-%d", i%100), fmt.Sprintf("service-%d", i))
		}
	})
	for i, name := range names {
		if status, _, node := whole.Lookup(name); status != Exists || !slices.Equal(node.V4, []netip.Addr{clusterIP(i)}) {
			t.Fatalf("%s: %v, %v", name, status, node.V4)
		}
		want := []Status{NXDomain, Exists}[i%2]
		if status, _, _ := z.Snapshot().Lookup(name); status != want {
			t.Fatalf("%s afterwards: %v, want %v", name, status, want)
		}
		// The namespaces of the deleted Services have no other Service.
		_, namespace := name.Cut()
		if status, _, _ := z.Snapshot().Lookup(namespace); status != want {
			t.Fatalf("%s afterwards: %v, want %v", namespace, status, want)
		}
	}
}
