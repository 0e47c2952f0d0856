// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func newZone(t testing.TB) *zone.Zone {
	t.Helper()
	return must.Get(zone.New(zone.Config{Domain: clusterLocal}))(t)
}

// load returns the zone of one manifest.
func load(t testing.TB, text string) (*zone.Zone, error) {
	t.Helper()
	z := newZone(t)
	m, err := ParseManifest("f.yaml", []byte(text))
	return z, errors.Join(err, LoadZone(z, clusterLocal, m))
}

const shop = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: empty}}
- {apiVersion: v1, kind: Service, metadata: {namespace: shop, name: given}, spec: {clusterIP: 10.96.0.1}}
- {apiVersion: v1, kind: Service, metadata: {namespace: shop, name: web}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: ext}, spec: {type: ExternalName, externalName: www.example}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: both}, spec: {ipFamilyPolicy: PreferDualStack}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {clusterIP: None,
  selector: {app: db}, ports: [{name: sql, port: 5432}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}},
  spec: {containers: [{name: db, image: db}]}}}
---
apiVersion: v1
kind: ServiceList
items: [{metadata: {namespace: shop, name: hand}, spec: {clusterIP: None, selector: {app: db}}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: hand-1, labels: {kubernetes.io/service-name: hand}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
`

func TestLoad(t *testing.T) {
	z := must.Get(load(t, shop))(t)
	for name, want := range map[string]string{
		"given.shop.svc":  "10.96.0.1",
		"hand.shop.svc":   "10.0.0.1", // from its slice
		"ext.default.svc": "www.example.",
		"empty.svc":       "exists",
		"none.svc":        "nxdomain",
	} {
		if got := lookup(t, z.Snapshot(), name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestLoad_Synthetic(t *testing.T) {
	z := must.Get(load(t, shop))(t)
	for name, families := range map[string]int{"web.shop.svc": 1, "both.shop.svc": 2, "db.shop.svc": 1, "db-0.db.shop.svc": 1} {
		got := strings.Fields(lookup(t, z.Snapshot(), name))
		if len(got) != families {
			t.Errorf("%s: %v", name, got)
		}
		for _, a := range got {
			if addr, err := netip.ParseAddr(a); err != nil || !Synthetic(addr) {
				t.Errorf("%s: %s is not synthetic", name, a)
			}
		}
	}
	again, _ := load(t, shop)
	if a, b := lookup(t, z.Snapshot(), "web.shop.svc"), lookup(t, again.Snapshot(), "web.shop.svc"); a != b {
		t.Errorf("%s, and then %s", a, b)
	}
	if Synthetic(netip.MustParseAddr("10.96.0.1")) || Synthetic(netip.MustParseAddr("198.20.0.1")) ||
		!Synthetic(netip.MustParseAddr("198.19.255.254")) {
		t.Error("the range of synthetic addresses")
	}
}

// TestLoad_NumberedPods: each pod of a StatefulSet or an Indexed Job has a name, and a
// workload with no replicas has one pod.
func TestLoad_NumberedPods(t *testing.T) {
	const text = `
{apiVersion: v1, kind: Service, metadata: {name: peers}, spec: {clusterIP: None, selector: {app: peers}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {%s, serviceName: peers, template: {metadata: {labels: {app: peers}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: shards}
spec: {completionMode: Indexed, completions: 2, template: {metadata: {labels: {app: peers}}, spec: {subdomain: peers}}}
`
	for _, tt := range []struct {
		set              string
		present, missing []string
	}{
		{"replicas: 3", []string{"db-0", "db-1", "db-2", "shards-0", "shards-1"}, []string{"db-3", "shards-2"}},
		{"replicas: 2, ordinals: {start: 5}", []string{"db-5", "db-6"}, []string{"db-0", "db-4", "db-7"}},
		{"replicas: 0", []string{"db-0"}, []string{"db-1"}},
		{fmt.Sprintf("replicas: %d", maxPods), []string{fmt.Sprintf("db-%d", maxPods-1)}, nil},
		{"replicas: 2147483647, ordinals: {start: 1}", nil, []string{"db-0"}}, // beyond an int32: refused by the API server
		{fmt.Sprintf("replicas: %d", maxPods+1), []string{fmt.Sprintf("db-%d", maxPods-1)}, []string{fmt.Sprintf("db-%d", maxPods)}},
	} {
		z := must.Get(load(t, fmt.Sprintf(text, tt.set)))(t)
		seen := map[string]string{}
		for _, host := range tt.present {
			got := lookup(t, z.Snapshot(), host+".peers.default.svc")
			addr, err := netip.ParseAddr(got)
			if err != nil || !Synthetic(addr) || seen[got] != "" {
				t.Errorf("%s: %s has %s; %s", tt.set, host, got, seen[got])
			}
			seen[got] = "so has " + host
		}
		for _, host := range tt.missing {
			if got := lookup(t, z.Snapshot(), host+".peers.default.svc"); got != "nxdomain" {
				t.Errorf("%s: %s is %s", tt.set, host, got)
			}
		}
	}
}

// TestDecodeManifest_Namespace: the namespace of Services without one, and of the pods that
// they select.
func TestDecodeManifest_Namespace(t *testing.T) {
	parsed := must.Get(kube.ParseManifest("f.yaml", []byte(`
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, selector: {app: db}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {hostname: a, subdomain: db}}
`)))(t)
	for namespace, want := range map[string]string{"shop": "10.96.0.1", "other": "nxdomain"} {
		z := newZone(t)
		m, err := DecodeManifest(parsed, namespace)
		must.Succeed(t, errors.Join(err, LoadZone(z, clusterLocal, m)))
		if got := lookup(t, z.Snapshot(), "web.shop.svc"); got != want {
			t.Errorf("in %s: web.shop is %s, want %s", namespace, got, want)
		}
		if got := lookup(t, z.Snapshot(), "a.db.shop.svc"); (got == "nxdomain") != (want == "nxdomain") {
			t.Errorf("in %s: a.db.shop is %s", namespace, got)
		}
	}
	if parsed.Workloads[0].Namespace != "" {
		t.Error("the parsed manifest was changed")
	}
}

// TestParseManifest_Invalid: the place of the problem, and the valid objects beside it.
func TestParseManifest_Invalid(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIp: None}}", "f.yaml:3:61: spec.clusterIp: unknown field"},
		{"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: http}]}}", "f.yaml:3:70: spec.ports[0].port"},
		{"{apiVersion: v1, kind: Service, metadata: {namespace: a}}", "f.yaml:3:33: metadata.name: is missing"},
		{"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace}]}", "f.yaml:3:38: items[0].metadata.name: is missing"},
		{"{apiVersion: v1, kind: Service, metadata: {name: a.b}, spec: {clusterIP: None}}",
			"f.yaml:3:1: services default/a.b: metadata.name"},
		{"kind: [", "f.yaml:3: did"},
	} {
		z, err := load(t, "{apiVersion: v1, kind: Service, metadata: {name: good}, spec: {clusterIP: 10.96.0.1}}\n---\n"+tt.text)
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
		if e, ok := errors.AsType[*kube.InputError](err); !ok || e.Document != 2 {
			t.Errorf("%s: %v", tt.text, err)
		}
		if got := lookup(t, z.Snapshot(), "good.default.svc"); got != "10.96.0.1" {
			t.Errorf("%s: the valid object is %s", tt.text, got)
		}
	}
}

// TestAllocator_Exhausted assigns the last free address, and one more.
func TestAllocator_Exhausted(t *testing.T) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		a := allocator{map[string]netip.Addr{}, map[netip.Addr]bool{}}
		first := a.assign(forServices, family, "first")
		for addr := synthetic[family].Addr(); len(a.used) < 1<<16-2; addr = addr.Next() {
			a.used[addr] = true
		}
		if last := a.assign(forServices, family, "last"); !Synthetic(last) || last == first {
			t.Errorf("the last: %v, the first %v", last, first)
		}
		if again := a.assign(forServices, family, "first"); again != first {
			t.Errorf("the first: %v, then %v", first, again)
		}
		if addr := a.assign(forServices, family, "more"); addr.IsValid() {
			t.Errorf("assigned %v, want no address", addr)
		}
		if addr := a.assign(forEndpoints, family, "more"); !Synthetic(addr) {
			t.Errorf("the other half: %v", addr)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(shop)
	f.Add("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIPs: [''], ipFamilies: [x, IPv6]}}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		z, _ := load(t, text)
		for s := range z.Snapshot().Services() {
			lookup(t, z.Snapshot(), s.Name+"."+s.Namespace+".svc")
		}
	})
}
