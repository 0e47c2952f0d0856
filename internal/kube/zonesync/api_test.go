// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/snapshot"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func newNamespace(name, uid string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func newService(namespace, name string, ips ...string) *corev1.Service {
	if ips == nil {
		ips = []string{corev1.ClusterIPNone}
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIPs: ips}}
}

func newSlice(namespace, name, service string, ips ...string) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	o.Namespace, o.Name, o.Labels = namespace, name, map[string]string{discoveryv1.LabelServiceName: service}
	o.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80)}}
	for _, ip := range ips {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return o
}

func newPod(namespace, name, ip string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: corev1.PodStatus{PodIP: ip}}
}

// cluster is a small one.
func cluster() []object4 {
	return []object4{
		newNamespace(metav1.NamespaceSystem, "uid-1"), newNamespace("shop", ""),
		newService("shop", "web", "10.96.0.1"), newService("shop", "db"),
		newSlice("shop", "db-1", "db", "10.0.0.1", "10.0.0.2"), newSlice("shop", "web-1", "web", "10.0.0.3"),
		newPod("shop", "db-0", "10.0.0.1"),
	}
}

// running is an API that runs.
type running struct {
	t    *testing.T
	zone *zone.Zone
	api  *API
	log  *strings.Builder
	stop func()
}

// start runs an API until the test or stop ends it.
func start(t *testing.T, s *apiServer, cfg Config) *running {
	t.Helper()
	r := &running{t: t, log: &strings.Builder{}}
	mode := zone.PodsDisabled
	if cfg.Pods {
		mode = zone.PodsVerified
	}
	var err error
	if r.zone, err = zone.New(zone.Config{Domain: clusterLocal, Pods: mode}); err != nil {
		t.Fatal(err)
	}
	cfg.Zone, cfg.Domain = r.zone, clusterLocal
	cfg.Core, cfg.Discovery = clients(t, "http://api.invalid", s)
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	if r.api, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.api.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return r
}

// want compares what a name has, in a word or addresses.
func (r *running) want(name, want string) {
	r.t.Helper()
	synctest.Wait()
	if got := lookup(r.t, r.zone.Snapshot(), name); got != want {
		r.t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func lookup(t testing.TB, s *zone.Snapshot, text string) string {
	t.Helper()
	name, err := fqdn.ParseName(text + ".cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	verdict, _, n := s.Lookup(name)
	switch verdict {
	case zone.Unknown:
		return "unknown"
	case zone.NXDomain:
		return "absent"
	}
	if all := append(slices.Clone(n.V4), n.V6...); len(all) > 0 {
		return strings.Trim(fmt.Sprint(all), "[]")
	}
	if n.Alias != "" {
		return n.Alias.String()
	}
	return "exists"
}

func inBubble(t *testing.T, cfg Config, test func(*testing.T, *apiServer, *running)) {
	t.Helper()
	for _, listsOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			s.listsOnly = listsOnly
			r := start(t, s, cfg)
			test(t, s, r)
			r.stop()
		})
	}
}

func TestFirstLists(t *testing.T) {
	inBubble(t, Config{Pods: true}, func(t *testing.T, s *apiServer, r *running) {
		r.want("web.shop.svc", "10.96.0.1")
		r.want("db.shop.svc", "10.0.0.1 10.0.0.2")
		r.want("shop.svc", "exists")
		r.want("none.shop.svc", "absent")
		r.want("10-0-0-1.shop.pod", "10.0.0.1")
		r.want("10-0-0-2.shop.pod", "absent")
		for _, st := range r.api.Status() {
			if !st.Listed || st.Err != nil || time.Since(st.LastReply) != 0 {
				t.Errorf("%+v", st)
			}
		}
	})
}

// TestNotLoaded: while one list is missing nothing is absent, and nothing is there.
func TestNotLoaded(t *testing.T) {
	for _, k := range []kind{namespaces, services, endpointSlices, pods} {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			s.hangs[k.resource] = true
			r := start(t, s, Config{Pods: true})
			defer r.stop()
			time.Sleep(time.Minute)
			r.want("web.shop.svc", "unknown")
			r.want("none.shop.svc", "unknown")
			for _, st := range r.api.Status() {
				if st.Listed != (st.Resource != k.resource) {
					t.Errorf("%+v", st)
				}
			}
			s.set(func() { s.hangs[k.resource] = false })
			r.want("web.shop.svc", "10.96.0.1")
			r.want("none.shop.svc", "absent")
		})
	}
}

func TestEvents(t *testing.T) {
	inBubble(t, Config{Pods: true}, func(t *testing.T, s *apiServer, r *running) {
		synctest.Wait()
		s.put(newSlice("shop", "db-2", "db", "10.0.0.2", "10.0.0.9"))
		r.want("db.shop.svc", "10.0.0.1 10.0.0.2 10.0.0.9")
		s.remove(newSlice("shop", "db-1", "db"))
		r.want("db.shop.svc", "10.0.0.2 10.0.0.9")
		orphan := newSlice("shop", "db-2", "")
		s.put(orphan) // has lost its label
		r.want("db.shop.svc", "absent")

		web := newService("shop", "web", "10.96.0.1")
		web.Spec.Type, web.Spec.ExternalName = corev1.ServiceTypeExternalName, "www.example"
		s.put(web)
		r.want("web.shop.svc", "www.example.")
		s.put(newService("shop", "web", "10.96.0.2"))
		r.want("web.shop.svc", "10.96.0.2")
		s.remove(web)
		r.want("web.shop.svc", "absent")

		s.put(newNamespace("new", ""))
		r.want("new.svc", "exists")
		s.remove(newNamespace("new", ""))
		r.want("new.svc", "absent")
		s.remove(newPod("shop", "db-0", ""))
		r.want("10-0-0-1.shop.pod", "absent")
	})
}

// TestAPIGone: names stay while the server is away, the status tells since when, and
// what went meanwhile goes when it is back.
func TestAPIGone(t *testing.T) {
	for name, forget := range map[string]bool{"resumed": false, "listed anew": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *apiServer, r *running) {
				r.want("web.shop.svc", "10.96.0.1")
				before := time.Now()
				s.set(func() { s.refuses = true })
				s.cutWatches(false)
				time.Sleep(time.Hour)
				r.want("web.shop.svc", "10.96.0.1")
				for _, st := range r.api.Status() {
					if !st.LastReply.Equal(before) || !st.Listed || !errors.Is(st.Err, syscall.ECONNREFUSED) {
						t.Errorf("%+v, want it heard at %v", st, before)
					}
				}
				s.remove(newService("shop", "web"))
				s.put(newService("shop", "api", "10.96.0.7"))
				s.cutWatches(forget)
				s.set(func() { s.refuses = false })
				time.Sleep(20 * time.Second)
				r.want("web.shop.svc", "absent")
				r.want("api.shop.svc", "10.96.0.7")
			})
		})
	}
}

func TestBookmark(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *apiServer, r *running) {
		synctest.Wait()
		time.Sleep(time.Minute)
		s.bookmark(&corev1.Service{})
		synctest.Wait()
		for _, st := range r.api.Status() {
			want := time.Minute
			if st.Resource == "services" {
				want = 0
			}
			if time.Since(st.LastReply) != want {
				t.Errorf("%s: heard %v ago", st.Resource, time.Since(st.LastReply))
			}
		}
	})
}

func TestComplaints(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *apiServer, r *running) {
		bad := newService("shop", "bad", "x")
		for range 3 {
			s.put(bad)
		}
		synctest.Wait()
		if n := strings.Count(r.log.String(), "cannot have names"); n != 1 || !strings.Contains(r.log.String(), "name=bad") {
			t.Errorf("%d complaints: %s", n, r.log)
		}
		r.want("bad.shop.svc", "absent")
		s.put(newService("shop", "bad", "10.96.0.5"))
		r.want("bad.shop.svc", "10.96.0.5")
	})
}

// TestSnapshot lives through the loss of everything but the file.
func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zone")
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, cluster()...)
		r := start(t, s, Config{Snapshot: file, Pods: true})
		synctest.Wait()
		s.put(newService("shop", "late", "10.96.0.8"))
		synctest.Wait()
		r.stop()
		if state, err := snapshot.Read(file); err != nil || state.Cluster != "uid-1" || len(state.Pods) != 1 {
			t.Fatalf("got %+v, %v", state, err)
		}

		// The server refuses: the file is read at once, and serves.
		began := time.Now()
		s.set(func() { s.refuses = true })
		time.Sleep(time.Hour)
		r = start(t, s, Config{Snapshot: file, Pods: true})
		r.want("late.shop.svc", "10.96.0.8")
		r.want("10-0-0-1.shop.pod", "10.0.0.1")
		r.want("none.shop.svc", "absent")
		if stale := r.zone.Snapshot().StaleSince(); stale.Sub(began).Abs() > time.Second {
			t.Errorf("stale since %v, want %v", stale, began)
		}

		// It is back, but for its slices: each type is exchanged when its list is there.
		s.remove(newService("shop", "late"))
		s.remove(newSlice("shop", "web-1", "web"))
		s.set(func() { s.refuses, s.hangs["endpointslices"] = false, true })
		time.Sleep(20 * time.Second)
		r.want("late.shop.svc", "absent")
		r.want("10-0-0-3.web.shop.svc", "10.0.0.3")
		if r.zone.Snapshot().StaleSince().IsZero() {
			t.Error("no longer stale, without a list of slices")
		}
		s.set(func() { s.hangs["endpointslices"] = false })
		time.Sleep(20 * time.Second)
		r.want("10-0-0-3.web.shop.svc", "absent")
		r.want("db.shop.svc", "10.0.0.1 10.0.0.2")
		if !r.zone.Snapshot().StaleSince().IsZero() {
			t.Error("still stale")
		}
		r.stop()
	})
}

// leave writes the snapshot of a cluster and returns its file.
func leave(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "zone")
	r := start(t, newAPIServer(t, cluster()...), Config{Snapshot: file})
	synctest.Wait()
	r.stop()
	return file
}

// TestSnapshotWait: an API server that hangs has 2 s, then the file is read.
func TestSnapshotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := leave(t)
		s := newAPIServer(t, cluster()...)
		s.hangs["endpointslices"] = true
		s.remove(newService("shop", "web"))
		r := start(t, s, Config{Snapshot: file})
		time.Sleep(2*time.Second - time.Nanosecond)
		r.want("db.shop.svc", "unknown")
		time.Sleep(time.Nanosecond)
		r.want("db.shop.svc", "10.0.0.1 10.0.0.2")
		r.want("web.shop.svc", "absent") // live Services were there before
		before, err := snapshot.Read(file)
		time.Sleep(time.Hour)
		r.stop()
		after, err2 := snapshot.Read(file)
		if err != nil || err2 != nil || !after.Time.Equal(before.Time) {
			t.Errorf("what is stale was written: %v, %v", err, err2)
		}
	})
}

// TestSnapshotOfNoUse: nothing is better than the names of another cluster.
func TestSnapshotOfNoUse(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		cfg   Config
		log   string
	}{
		"too old":      {24*time.Hour + time.Second, Config{}, "old, the limit is 24h0m0s"},
		"without pods": {0, Config{Pods: true}, "without pods"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.cfg.Snapshot = leave(t)
			time.Sleep(c.pause)
			s := newAPIServer(t)
			s.refuses = true
			r := start(t, s, c.cfg)
			defer r.stop()
			time.Sleep(time.Minute)
			r.want("web.shop.svc", "unknown")
			if strings.Count(r.log.String(), c.log) != 1 {
				t.Errorf("%s: %s", name, r.log)
			}
		})
	}
}

// TestSnapshotOfAnother is served until the UID of this cluster is known.
func TestSnapshotOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := leave(t)
		s := newAPIServer(t, newNamespace(metav1.NamespaceSystem, "uid-2"), newService("shop", "new", "10.96.0.9"))
		s.hangs["namespaces"], s.hangs["services"] = true, true
		r := start(t, s, Config{Snapshot: file})
		time.Sleep(time.Minute)
		r.want("10-0-0-1.db.shop.svc", "absent") // live: there are no slices
		r.want("web.shop.svc", "10.96.0.1")
		s.set(func() { s.hangs["namespaces"] = false })
		r.want("web.shop.svc", "unknown")
		s.set(func() { s.hangs["services"] = false })
		r.want("web.shop.svc", "absent")
		r.want("new.shop.svc", "10.96.0.9")
		r.stop()
	})
}

// TestSave: a change is written within 30 s, and no change now and then.
func TestSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "zone")
		s := newAPIServer(t, cluster()...)
		r := start(t, s, Config{Snapshot: file})
		defer r.stop()
		at := func() time.Time {
			synctest.Wait()
			state, err := snapshot.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			return state.Time
		}
		hear := func() {
			for _, o := range []object4{&corev1.Namespace{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}} {
				s.bookmark(o)
			}
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		first := at()
		time.Sleep(10 * time.Second)
		hear()
		time.Sleep(time.Minute)
		if !at().Equal(first) {
			t.Error("written without a change")
		}
		s.put(newService("shop", "web", "10.96.0.2"))
		time.Sleep(30 * time.Second)
		if !at().After(first) {
			t.Error("a change was not written")
		}
		time.Sleep(time.Hour)
		hear()
		time.Sleep(30 * time.Second)
		if time.Since(at()) > time.Minute {
			t.Errorf("the zone was the same at %v, the file says %v", time.Now(), at())
		}
	})
}

func TestConfig(t *testing.T) {
	core, discovery := clients(t, "http://api.invalid", newAPIServer(t))
	good := Config{Zone: newZone(t), Domain: clusterLocal, Core: core, Discovery: discovery}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"zone": func(c *Config) { c.Zone = nil }, "domain": func(c *Config) { c.Domain = "" }, "core": func(c *Config) { c.Core = nil },
		"discovery": func(c *Config) { c.Discovery = nil }, "wait": func(c *Config) { c.SnapshotWait = -1 }, "age": func(c *Config) { c.SnapshotMaxAge = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("a bad %s was taken", name)
		}
	}
}
