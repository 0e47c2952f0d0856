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

	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	checkLookups(t, "records", z.Snapshot())
}

// TestLookup_Reverse looks up the reverse names at, above and below each range and address. The
// zone has authority over the ranges alone, or without ranges over the addresses of the cluster.
func TestLookup_Reverse(t *testing.T) {
	for file, ranges := range map[string][]netip.Prefix{"without ranges": nil,
		"with ranges": prefixes("10.96.0.0/12", "10.99.7.0/24", "fd00::/16", "192.168.1.1/32")} {
		z := newZone(t, Config{Reverse: ranges})
		z.Update(1, func(e *Edit) {
			e.PutService(Service{Namespace: "default", Name: "web", ClusterIPs: addrs("10.96.0.7")})
			e.PutEndpointSlice(EndpointSlice{Namespace: "default", Name: "web-1", Service: "web", Endpoints: []Endpoint{
				{Addr: netip.MustParseAddr("8.8.8.8"), Ready: true}, {Addr: netip.MustParseAddr("192.168.1.1"), Ready: true}}})
			e.SetLoaded()
		})
		checkLookups(t, file, z.Snapshot())
	}
}

// In the mode PodsInsecure, names exist for the addresses that a pod can have.
func TestLookup_PodAddresses(t *testing.T) {
	const (
		inRange = "10-244-0-0 10-244-255-255 fd00--1"
		outside = "10-245-0-0 8-8-8-8 100-64-0-1 fd01--1 2001-db8--1 1-0-0-0 fec0--1"
		never   = "127-0-0-1 127-255-255-254 169-254-169-254 224-0-0-251 239-255-255-255 255-255-255-255" +
			" 0-0-0-0 0-1-2-3 --1 --0 fe80--1 febf--1 ff02--fb --ffff-7f00-1 --ffff-af4-1"
	)
	for _, tt := range []struct {
		reverse        []netip.Prefix
		exist, nothing string
	}{{nil, inRange + " " + outside, never}, {prefixes("10.244.0.0/16", "fd00::/64"), inRange, outside + " " + never}} {
		z := newZone(t, Config{Pods: PodsInsecure, Reverse: tt.reverse})
		z.Update(1, func(e *Edit) { e.PutNamespace("default"); e.SetLoaded() })
		for labels, want := range map[string]bool{tt.exist: true, tt.nothing: false} {
			for label := range strings.FieldsSeq(labels) {
				if got := describe(t, z.Snapshot(), label+".default.pod.cluster.local"); (got != "NXDOMAIN in cluster.local.") != want {
					t.Errorf("%s with ranges %v: got %s, want it to exist: %t", label, tt.reverse, got, want)
				}
			}
		}
	}
}

// Before the zone is loaded no name is NXDomain.
func TestLookup_Unloaded(t *testing.T) {
	for file, ranges := range map[string][]netip.Prefix{"unloaded": nil, "unloaded, with a range": prefixes("10.96.0.0/12")} {
		z := newZone(t, Config{Reverse: ranges})
		checkLookups(t, file, z.Snapshot())
	}
}

// After random edits the zone equals one built from its objects at once: the order of
// edits does not matter.
func TestUpdate_RandomEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	z := newZone(t, Config{Pods: PodsVerified, Reverse: prefixes("10.0.0.0/8"), External: []fqdn.Name{"\x02lb\x00"}})
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
			switch random.IntN(3) {
			case 0:
				s.External = &External{Addrs: addrs("192.0.2." + pick("1", "2"))}
			case 1:
				s.External = &External{Host: pick("e.example", "f.example")}
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
				names = append(names, below+svc+"."+ns+".svc.cluster.local", below+svc+"."+ns+".lb")
			}
		}
	}
	for _, name := range names {
		if g, w := describe(t, got, name), describe(t, fresh.Snapshot(), name); g != w {
			t.Fatalf("after %d edits, %s:\n got %s\nwant %s", got.serial, name, g, w)
		}
	}
}

// checkLookups looks the names of a file of testdata/lookups.txtar up. Its lines are "NAME: RESULT # COMMENT".
func checkLookups(t *testing.T, file string, s *Snapshot) {
	t.Helper()
	archive := must.Get(txtar.ParseFile("testdata/lookups.txtar"))(t)
	n := 0
	for _, f := range archive.Files {
		for line := range strings.Lines(string(f.Data)) {
			line, _, _ = strings.Cut(line, "#")
			name, want, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if f.Name != file || !ok {
				continue
			}
			n++
			if got := describe(t, s, name); got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", file, name, got, want)
			}
		}
	}
	if n == 0 {
		t.Errorf("no lookups %s", file)
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
		parts = append(parts, fmt.Sprintf("SRV %d %d %s", set.Weight(), port, fqdn.Name(append(t.AppendLabel(nil), set.Service...))))
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
	return must.Get(New(c))(t)
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
		z := newZone(t, Config{})
		z.Update(1, func(e *Edit) {
			s := EndpointSlice{Namespace: "a", Name: "x", Service: "x"}
			for _, addr := range addrs(strings.Fields(tt.addrs)...) {
				s.Endpoints = append(s.Endpoints, Endpoint{Addr: addr})
			}
			e.PutEndpointSlice(s)
			e.PutService(Service{Namespace: "a", Name: "y", ClusterIPs: addrs(strings.Fields(tt.addrs)...)})
			e.SetLoaded()
		})
		if services, endpoints := z.Snapshot().Networks(); fmt.Sprint(services) != tt.want || fmt.Sprint(endpoints) != tt.want {
			t.Errorf("%s: %v and %v, want %s", tt.name, services, endpoints, tt.want)
		}
	}
}
