// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

func client(t *testing.T, url, contentType string) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, s *kubeapi.Server) string {
	t.Helper()
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return url
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}},
	}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

// formats are the encodings that the server supports.
var formats = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

// TestServer_Informer runs an informer through changes, cut watches, a restart and
// bookmarks.
func TestServer_Informer(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := kubeapi.New()
			s.Apply(service("web", "10.96.0.1"), service("db", "10.96.0.2"))
			factory := informers.NewSharedInformerFactory(client(t, start(t, s), format), 0)
			lister := factory.Core().V1().Services().Lister().Services("shop")
			informer := factory.Core().V1().Services().Informer()
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(func() { cancel(); factory.Shutdown() })
			factory.StartWithContext(ctx)
			factory.WaitForCacheSync(ctx.Done())

			want := func(name, ip string) {
				t.Helper()
				eventually(t, func() error { return compareIP(lister, name, ip) })
			}
			want("web", "10.96.0.1")
			want("db", "10.96.0.2")
			s.Apply(service("web", "10.96.0.9"), service("new", "10.96.0.3"))
			want("web", "10.96.0.9")
			want("new", "10.96.0.3")
			s.Delete(service("db", ""), service("never", ""))
			want("db", "")

			s.CutWatches()
			s.Apply(service("web", "10.96.0.10"))
			want("web", "10.96.0.10")
			if n := s.Requests()["list services"]; n != 0 {
				t.Errorf("%d lists, want a streaming list", n)
			}
			s.Stop()
			s.Apply(service("web", "10.96.0.11"))
			s.Forget()
			if _, err := s.Start(); err != nil {
				t.Fatal(err)
			}
			want("web", "10.96.0.11")
			before := informer.LastSyncResourceVersion()
			s.Apply(pod("p", "n"))
			s.Bookmark()
			eventually(t, func() error {
				if informer.LastSyncResourceVersion() == before {
					return errors.New("no bookmark")
				}
				return nil
			})
		})
	}
}

// compareIP returns an error unless the Service has the IP, or does not exist if ip is "".
func compareIP(lister corelisters.ServiceNamespaceLister, name, ip string) error {
	o, err := lister.Get(name)
	switch {
	case apierrors.IsNotFound(err) && ip == "":
		return nil
	case err != nil:
		return err
	case o.Spec.ClusterIP != ip:
		return fmt.Errorf("%s has %s, want %s", name, o.Spec.ClusterIP, ip)
	}
	return nil
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for tick := time.Tick(5 * time.Millisecond); ; {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// wantEvent receives an event of a pod.
func wantEvent(t *testing.T, w watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	e := <-w.ResultChan()
	if p, ok := e.Object.(*corev1.Pod); !ok || e.Type != kind || p.Name != name {
		t.Fatalf("%+v, want %s %s", e, kind, name)
	}
}

// TestWatch_Selector: an object that leaves the selection is deleted for its watches.
func TestWatch_Selector(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := kubeapi.New()
			s.Apply(pod("here", "n1"), pod("there", "n2"))
			pods := client(t, start(t, s), format).CoreV1().Pods(metav1.NamespaceAll)
			selector := metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}
			list, err := pods.List(t.Context(), selector)
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != "here" {
				t.Fatal(list, err)
			}
			selector.ResourceVersion = list.ResourceVersion
			w, err := pods.Watch(t.Context(), selector)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			s.Apply(pod("there", "n2"), pod("there", "n1"), pod("here", "n1"), pod("here", "n2"))
			wantEvent(t, w, watch.Added, "there")
			wantEvent(t, w, watch.Modified, "here")
			wantEvent(t, w, watch.Deleted, "here")
		})
	}
}

// TestWatch_Replaced: an object with a new UID is another object.
func TestWatch_Replaced(t *testing.T) {
	s := kubeapi.New()
	s.Apply(pod("p", "n1"))
	w, err := client(t, start(t, s), runtime.ContentTypeProtobuf).CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	wantEvent(t, w, watch.Added, "p")
	next := pod("p", "n1")
	next.UID = "another"
	s.Apply(next)
	wantEvent(t, w, watch.Deleted, "p")
	wantEvent(t, w, watch.Added, "p")
}

// local returns a client without a socket: a test in a synctest bubble can tell when
// nothing more happens.
func local(t *testing.T, s *kubeapi.Server) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.invalid", QPS: -1, Transport: kubeapi.Transport(s)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServer_Hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.Apply(pod("p", "n1"))
		pods := local(t, s).CoreV1().Pods("shop")
		release, listed := s.Hold("pods"), false
		go func() {
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			listed = err == nil && len(list.Items) == 1
		}()
		time.Sleep(time.Hour)
		if synctest.Wait(); listed {
			t.Error("listed while held")
		}
		release()
		if synctest.Wait(); !listed {
			t.Error("not listed after the release")
		}
	})
}

func TestServer_StopEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.Apply(pod("p", "n1"))
		w, err := local(t, s).CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		wantEvent(t, w, watch.Added, "p")
		s.Bookmark("services")
		s.Bookmark("pods")
		wantEvent(t, w, watch.Bookmark, "")
		s.StopEvents()
		s.Apply(pod("q", "n1"))
		synctest.Wait()
		select {
		case e := <-w.ResultChan():
			t.Errorf("%+v, want no event", e)
		default:
		}
	})
}

func TestServer_SetFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.Apply(pod("p", "n1"))
		pods := local(t, s).CoreV1().Pods("shop")
		s.DisableStreamingLists()
		streaming := metav1.ListOptions{SendInitialEvents: new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
		if _, err := pods.Watch(t.Context(), streaming); !apierrors.IsInvalid(err) {
			t.Errorf("streaming list: %v", err)
		}
		s.SetFault(kubeapi.Fail, "get")
		if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("list: %v", err)
		}
		if _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
			t.Errorf("get: %v", err)
		}
	})
}

func TestServer_Rejects(t *testing.T) {
	s := kubeapi.New()
	s.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}})
	api := client(t, start(t, s), runtime.ContentTypeJSON)
	ctx := t.Context()
	if ns, err := api.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err != nil || ns.UID == "" {
		t.Error(ns, err)
	}
	if list, err := api.DiscoveryV1().EndpointSlices("other").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Error(list, err)
	}
	if _, err := api.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := api.CoreV1().Secrets("shop").List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	s.SetFault(kubeapi.Forbid)
	if _, err := api.CoreV1().Services("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	s.SetFault(nil)
	s.Forget()
	w, err := api.CoreV1().Services("").Watch(ctx, metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("%+v", e)
	}
	want := map[string]int{"get namespaces": 1, "list endpointslices": 1, "get nodes": 1, "list ": 1,
		"list services": 1, "watch services": 1}
	if got := s.Requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWatch_Expired resumes from the oldest version in the log, and from the one before.
func TestWatch_Expired(t *testing.T) {
	const logSize = 50_000
	s := kubeapi.New()
	api := client(t, start(t, s), runtime.ContentTypeProtobuf)
	changes := 0
	change := func() {
		s.Apply(pod("p", fmt.Sprint(changes)))
		changes++
	}
	change()
	first, err := api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() watch.Event {
		w, err := api.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		return <-w.ResultChan()
	}
	for changes < logSize {
		change()
	}
	if e := next(); e.Type != watch.Modified {
		t.Errorf("%+v, want the first change", e)
	}
	change()
	if e := next(); e.Type != watch.Error {
		t.Errorf("%+v, want 410 Gone", e)
	}
}
