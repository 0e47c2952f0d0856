// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

func newZone(t testing.TB) *zone.Zone {
	t.Helper()
	z, err := zone.New(zone.Config{Domain: clusterLocal})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// fill returns the zone of one manifest.
func fill(t testing.TB, text string) (*zone.Zone, error) {
	t.Helper()
	z := newZone(t)
	m, err := ParseManifest("f.yaml", []byte(text))
	return z, errors.Join(err, Load(z, clusterLocal, m))
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
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}}
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

func TestFill(t *testing.T) {
	z, err := fill(t, shop)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"given.shop.svc":  "10.96.0.1",
		"hand.shop.svc":   "10.0.0.1", // it has a slice
		"ext.default.svc": "www.example.",
		"empty.svc":       "exists",
		"none.svc":        "absent",
	} {
		if got := lookup(t, z.Snapshot(), name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
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
	again, _ := fill(t, shop)
	if a, b := lookup(t, z.Snapshot(), "web.shop.svc"), lookup(t, again.Snapshot(), "web.shop.svc"); a != b {
		t.Errorf("%s, and then %s", a, b)
	}
	if Synthetic(netip.MustParseAddr("10.96.0.1")) || Synthetic(netip.MustParseAddr("198.20.0.1")) || !Synthetic(netip.MustParseAddr("198.19.255.254")) {
		t.Error("the range of synthetic addresses")
	}
}

// TestNumberedPods: each pod of a StatefulSet or an Indexed Job has its name, and a
// workload that is scaled to nothing has one.
func TestNumberedPods(t *testing.T) {
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
		set             string
		present, absent []string
	}{
		{"replicas: 3", []string{"db-0", "db-1", "db-2", "shards-0", "shards-1"}, []string{"db-3", "shards-2"}},
		{"replicas: 2, ordinals: {start: 5}", []string{"db-5", "db-6"}, []string{"db-0", "db-4", "db-7"}},
		{"replicas: 0", []string{"db-0"}, []string{"db-1"}},
		{fmt.Sprintf("replicas: %d", maxPods), []string{fmt.Sprintf("db-%d", maxPods-1)}, nil},
		{"replicas: 2147483647, ordinals: {start: 1}", nil, []string{"db-0"}}, // beyond an int32: refused by the API server
		{fmt.Sprintf("replicas: %d", maxPods+1), []string{fmt.Sprintf("db-%d", maxPods-1)}, []string{fmt.Sprintf("db-%d", maxPods)}},
	} {
		z, err := fill(t, fmt.Sprintf(text, tt.set))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, host := range tt.present {
			got := lookup(t, z.Snapshot(), host+".peers.default.svc")
			addr, err := netip.ParseAddr(got)
			if err != nil || !Synthetic(addr) || seen[got] != "" {
				t.Errorf("%s: %s has %s; %s", tt.set, host, got, seen[got])
			}
			seen[got] = "so has " + host
		}
		for _, host := range tt.absent {
			if got := lookup(t, z.Snapshot(), host+".peers.default.svc"); got != "absent" {
				t.Errorf("%s: %s is %s", tt.set, host, got)
			}
		}
	}
}

// TestNamespaceOfThoseThatNameNone: Services, and the pods that they select.
func TestNamespaceOfThoseThatNameNone(t *testing.T) {
	parsed, err := kube.ParseManifest("f.yaml", []byte(`
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None, selector: {app: db}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {hostname: a, subdomain: db}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{"shop": "10.96.0.1", "other": "absent"} {
		z := newZone(t)
		m, err := DecodeManifest(parsed, namespace)
		if err := errors.Join(err, Load(z, clusterLocal, m)); err != nil {
			t.Fatal(err)
		}
		if got := lookup(t, z.Snapshot(), "web.shop.svc"); got != want {
			t.Errorf("in %s: web.shop is %s, want %s", namespace, got, want)
		}
		if got := lookup(t, z.Snapshot(), "a.db.shop.svc"); (got == "absent") != (want == "absent") {
			t.Errorf("in %s: a.db.shop is %s", namespace, got)
		}
	}
	if parsed.Workloads[0].Namespace != "" {
		t.Error("the parsed manifest was changed")
	}
}

// TestParseManifestRefuses: where a file is wrong, and what is right in it.
func TestParseManifestRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIp: None}}", "f.yaml:2:spec.clusterIp"},
		{"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: http}]}}", "f.yaml:2:spec.ports[0].port"},
		{"{apiVersion: v1, kind: Service, metadata: {namespace: a}}", "f.yaml:2:metadata.name: is missing"},
		{"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace}]}", "f.yaml:2:items[0].metadata.name: is missing"},
		{"{apiVersion: v1, kind: Service, metadata: {name: a.b}, spec: {clusterIP: None}}", "f.yaml:2: services default/a.b: metadata.name"},
		{"kind: [", "f.yaml:2: line 3"},
	} {
		z, err := fill(t, "{apiVersion: v1, kind: Service, metadata: {name: good}, spec: {clusterIP: 10.96.0.1}}\n---\n"+tt.text)
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
		if e, ok := errors.AsType[*kube.InputError](err); !ok || e.Document != 2 {
			t.Errorf("%s: %v", tt.text, err)
		}
		if got := lookup(t, z.Snapshot(), "good.default.svc"); got != "10.96.0.1" {
			t.Errorf("%s: the good one is %s", tt.text, got)
		}
	}
}

// TestAddresses takes the last ones that are free, and one more.
func TestAddresses(t *testing.T) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		a := addresses{map[string]netip.Addr{}, map[netip.Addr]bool{}}
		first := a.take(forServices, family, "first")
		for addr := synthetic[family].Addr(); len(a.taken) < 1<<16-2; addr = addr.Next() {
			a.taken[addr] = true
		}
		if last := a.take(forServices, family, "last"); !Synthetic(last) || last == first {
			t.Errorf("the last: %v, the first %v", last, first)
		}
		if again := a.take(forServices, family, "first"); again != first {
			t.Errorf("the first: %v, then %v", first, again)
		}
		if addr := a.take(forServices, family, "more"); addr.IsValid() {
			t.Errorf("one too many: %v", addr)
		}
		if addr := a.take(forEndpoints, family, "more"); !Synthetic(addr) {
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
		z, _ := fill(t, text)
		for s := range z.Snapshot().Services() {
			lookup(t, z.Snapshot(), s.Name+"."+s.Namespace+".svc")
		}
	})
}

func service(name, ip string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {clusterIP: %s}}\n", name, ip)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".tmp", []byte(text), 0o600), os.Rename(path+".tmp", path)); err != nil {
		t.Fatal(err)
	}
}

// TestDirectories changes files and reads each time, without a watch.
func TestDirectories(t *testing.T) {
	dir, later := t.TempDir(), filepath.Join(t.TempDir(), "later")
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	z, log := newZone(t), new(strings.Builder)
	d, err := NewDirectories(DirectoriesConfig{Zone: z, Domain: clusterLocal, Paths: []string{dir, later}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	want := func(step string, wants map[string]string) {
		t.Helper()
		d.read()
		for name, want := range wants {
			if got := lookup(t, z.Snapshot(), name+".default.svc"); got != want {
				t.Errorf("%s: %s is %s, want %s", step, name, got, want)
			}
		}
	}
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.json")
	write(t, a, service("web", "10.96.0.1"))
	write(t, filepath.Join(dir, "README.md"), "no manifest")
	write(t, filepath.Join(dir, ".a.yaml"), service("hidden", "10.96.0.9"))
	if err := os.Remove(later); err != nil {
		t.Fatal(err)
	}
	want("a directory has gone before the first reading", map[string]string{"web": "unknown", "none": "unknown"})
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	want("it is back", map[string]string{"web": "10.96.0.1", "none": "absent", "hidden": "absent"})
	write(t, b, service("web", "10.96.0.2")+"---\n"+service("api", "10.96.0.3"))
	want("the later file counts", map[string]string{"web": "10.96.0.2", "api": "10.96.0.3"})
	write(t, filepath.Join(later, "a.yaml"), service("web", "10.96.0.4"))
	want("and the later directory", map[string]string{"web": "10.96.0.4"})
	before := z.Snapshot()
	want("nothing has changed", nil)
	if z.Snapshot() != before {
		t.Error("the zone changed")
	}

	write(t, b, "kind: [")
	want("a bad file", map[string]string{"api": "10.96.0.3"})
	want("that stays bad", map[string]string{"api": "10.96.0.3"})
	write(t, b, service("api", "10.96.0.5")+"---\n{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {typo: 1}}")
	want("a bad object in it", map[string]string{"api": "10.96.0.3"})
	if n := strings.Count(log.String(), "path="+b); n != 2 || !strings.Contains(log.String(), b+":2:spec.typo") {
		t.Errorf("%d complaints:\n%s", n, log)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	want("a file that is gone", map[string]string{"api": "absent", "web": "10.96.0.4"})
	if err := os.RemoveAll(later); err != nil {
		t.Fatal(err)
	}
	want("a directory that is gone", map[string]string{"web": "10.96.0.4"})
}

// TestDirectoriesRefuses: where no directory can be read nothing begins.
func TestDirectoriesRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, service("web", "10.96.0.1"))
	missing, below := filepath.Join(dir, "missing"), filepath.Join(file, "below")
	_, err := NewDirectories(DirectoriesConfig{Zone: newZone(t), Domain: clusterLocal, Paths: []string{missing, dir, file, below}})
	want := missing + ": no such directory; give a directory\n" + file + ": not a directory; give a directory\n" + below + ": not a directory"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDirectoriesRun has the kernel tell of changes.
func TestDirectoriesRun(t *testing.T) {
	dir, z := t.TempDir(), newZone(t)
	write(t, filepath.Join(dir, "a.yaml"), service("web", "10.96.0.1"))
	d, err := NewDirectories(DirectoriesConfig{Zone: z, Domain: clusterLocal, Paths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	eventually := func(want string) {
		t.Helper()
		for began := time.Now(); lookup(t, z.Snapshot(), "web.default.svc") != want; time.Sleep(time.Millisecond) {
			if time.Since(began) > rereadPeriod/2 {
				t.Fatalf("not %s", want)
			}
		}
	}
	eventually("10.96.0.1")
	write(t, filepath.Join(dir, "a.yaml"), service("web", "10.96.0.2"))
	eventually("10.96.0.2")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, bad := range []DirectoriesConfig{{}, {Zone: z}, {Zone: z, Domain: clusterLocal}} {
		if _, err := NewDirectories(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
