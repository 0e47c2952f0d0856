// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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

// cluster returns the objects of a small cluster.
func cluster() []kubeapi.Object {
	return []kubeapi.Object{
		newNamespace(metav1.NamespaceSystem, "uid-1"), newNamespace("shop", ""),
		newService("shop", "web", "10.96.0.1"), newService("shop", "db"),
		newSlice("shop", "db-1", "db", "10.0.0.1", "10.0.0.2"), newSlice("shop", "web-1", "web", "10.0.0.3"),
		newPod("shop", "db-0", "10.0.0.1"),
	}
}

// apiServer is an API server in this process. It fails the test on requests that a Syncer
// must not send.
type apiServer struct {
	*kubeapi.Server
	t           testing.TB
	unreachable atomic.Bool // connections are refused
	attempts    atomic.Int64
}

func newAPIServer(t testing.TB, objects ...kubeapi.Object) *apiServer {
	s := &apiServer{Server: kubeapi.New(), t: t}
	s.Apply(objects...)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, selector := path.Base(r.URL.Path), r.URL.Query().Get("fieldSelector")
	paths := []string{"/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices"}
	if r.Method != http.MethodGet || !slices.Contains(paths, r.URL.Path) || selector != "" && resource != "pods" {
		s.t.Errorf("unexpected request: %s %s", r.Method, r.URL)
	}
	s.Server.ServeHTTP(w, r)
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.attempts.Add(1)
	if s.unreachable.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return kubeapi.Transport(s).RoundTrip(r)
}

// clients returns clients of both groups at host; transport nil is the network.
func clients(t testing.TB, host string, transport http.RoundTripper) (core, discovery rest.Interface) {
	t.Helper()
	cfg := &rest.Config{Host: host, QPS: -1, Transport: transport}
	core = must.Get(NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{}))(t)
	discovery = must.Get(NewClient(cfg, discoveryv1.SchemeGroupVersion, &EndpointSlice{}, &discoveryv1.EndpointSliceList{}))(t)
	return core, discovery
}

// running is a Syncer that runs.
type running struct {
	t      *testing.T
	zone   *zone.Zone
	syncer *Syncer
	log    *strings.Builder
	stop   func()
}

// start runs a Syncer until stop is called.
func start(t *testing.T, s *apiServer, cfg SyncerConfig) *running {
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
	r.syncer = NewSyncer(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.syncer.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return r
}

// want compares the result of a lookup: addresses, or one word.
func (r *running) want(name, want string) {
	r.t.Helper()
	synctest.Wait()
	if got := lookup(r.t, r.zone.Snapshot(), name); got != want {
		r.t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func lookup(t testing.TB, s *zone.Snapshot, text string) string {
	t.Helper()
	name := must.Get(fqdn.ParseName(text + ".cluster.local"))(t)
	verdict, _, n := s.Lookup(name)
	switch verdict {
	case zone.Unknown:
		return "unknown"
	case zone.NXDomain:
		return "nxdomain"
	}
	if all := append(slices.Clone(n.V4), n.V6...); len(all) > 0 {
		return strings.Trim(fmt.Sprint(all), "[]")
	}
	if n.Alias != "" {
		return n.Alias.String()
	}
	return "exists"
}

// inBubble runs a test with and without streaming lists.
func inBubble(t *testing.T, cfg SyncerConfig, test func(*testing.T, *apiServer, *running)) {
	t.Helper()
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer(t, cluster()...)
			if !streaming {
				s.DisableStreamingLists()
			}
			r := start(t, s, cfg)
			test(t, s, r)
			r.stop()
		})
	}
}

// TestSyncer_Flapping: an API server that works for a second and fails in the next one, for ten
// minutes, removes no name. It gets at most one request a second for each resource, and the names are
// those of the cluster soon after it works again.
func TestSyncer_Flapping(t *testing.T) {
	const flaps, resources = 300, 3
	for name, fail := range map[string]func(*apiServer, bool){
		"connections are refused": func(s *apiServer, down bool) { s.unreachable.Store(down) },
		"internal errors":         func(s *apiServer, down bool) { setFault(s, down, kubeapi.Fail) },
		"forbidden":               func(s *apiServer, down bool) { setFault(s, down, kubeapi.Forbid) },
		"replies that end early":  func(s *apiServer, down bool) { setFault(s, down, kubeapi.Truncate) },
		"watches end":             func(*apiServer, bool) {},
		"versions are forgotten":  func(s *apiServer, _ bool) { s.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, SyncerConfig{}, func(t *testing.T, s *apiServer, r *running) {
				r.want("web.shop.svc", "10.96.0.1")
				begin := s.attempts.Load()
				for i := range flaps {
					fail(s, true)
					s.CutWatches()
					time.Sleep(time.Second)
					r.want("web.shop.svc", "10.96.0.1")
					s.Apply(newService("shop", "api", fmt.Sprintf("10.96.1.%d", i%200)))
					fail(s, false)
					time.Sleep(time.Second)
					r.want("web.shop.svc", "10.96.0.1")
					r.want("db.shop.svc", "10.0.0.1 10.0.0.2")
				}
				if n := s.attempts.Load() - begin; n > 2*flaps*resources {
					t.Errorf("%d requests for %d resources in %d seconds", n, resources, 2*flaps)
				}
				s.Delete(newService("shop", "web"))
				time.Sleep(20 * time.Second)
				r.want("web.shop.svc", "nxdomain")
				r.want("api.shop.svc", fmt.Sprintf("10.96.1.%d", (flaps-1)%200))
			})
		})
	}
}

// TestSyncer_PartOfList: the part of a list that has arrived leaves nothing in the zone: neither the complete list of a
// second attempt nor the snapshot has its objects.
func TestSyncer_PartOfList(t *testing.T) {
	s := &Syncer{}
	file := filepath.Join(t.TempDir(), "zone")
	for name, load := range map[string]func() error{
		"list": func() (err error) {
			for _, i := range s.informers {
				err = errors.Join(err, i.Replace(nil, ""))
				s.apply(<-s.changes)
			}
			return err
		},
		"snapshot": func() error {
			s.restore()
			return nil
		},
	} {
		z := must.Get(zone.New(zone.Config{Domain: clusterLocal}))(t)
		must.Succeed(t, WriteSnapshot(file, SnapshotHeader{Domain: clusterLocal, Time: time.Now()}, z.Snapshot()))
		s = NewSyncer(SyncerConfig{Zone: z, Domain: clusterLocal, Snapshot: file})
		convert := s.informers[1].Transformer()
		for i := range maxBatch {
			must.Get(convert(newService("shop", fmt.Sprintf("web-%d", i), "10.96.0.1")))(t)
		}
		s.apply(<-s.changes)
		if got := lookup(t, z.Snapshot(), "web-1.shop.svc"); got != "unknown" {
			t.Errorf("%s: %s before", name, got)
		}
		if err := load(); err != nil {
			t.Error(err)
		}
		if got := lookup(t, z.Snapshot(), "web-1.shop.svc"); got != "nxdomain" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// setFault lets f answer all requests while the API server is down.
func setFault(s *apiServer, down bool, f http.HandlerFunc) {
	if !down {
		f = nil
	}
	s.SetFault(f)
}

// TestSnapshot_Saved: a changed zone is written within 30 s, an unchanged one within the
// hour.
func TestSnapshot_Saved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "zone")
		s := newAPIServer(t, cluster()...)
		r := start(t, s, SyncerConfig{Snapshot: file})
		defer r.stop()
		at := func() time.Time {
			synctest.Wait()
			state := must.Get(ReadSnapshot(file))(t)
			return state.Time
		}
		bookmark := func() {
			s.Bookmark()
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		first := at()
		time.Sleep(10 * time.Second)
		bookmark()
		time.Sleep(time.Minute)
		if !at().Equal(first) {
			t.Error("written without a change")
		}
		s.Apply(newService("shop", "web", "10.96.0.2"))
		time.Sleep(30 * time.Second)
		changed := at()
		if !changed.After(first) {
			t.Error("a change was not written")
		}
		time.Sleep(time.Hour)
		for range 60 { // a watch that is being opened again misses a bookmark
			bookmark()
			time.Sleep(time.Second)
		}
		// Watches that were opened again may have rewritten it before the bookmarks.
		if rewritten := at(); rewritten.Sub(changed) < time.Hour {
			t.Errorf("the snapshot of %v was not rewritten by %v: it has %v", changed, time.Now(), rewritten)
		}
	})
}
