// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// coreClient returns a client of the core group. The clientset of client-go, with all groups, would
// add 230 packages to each build of the tests.
func coreClient(t *testing.T, cfg *rest.Config) rest.Interface {
	t.Helper()
	cfg.QPS = -1
	c, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Secret{}, &corev1.SecretList{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// remote returns a client of the API at url that sends and accepts a content type.
func remote(t *testing.T, url, contentType string) rest.Interface {
	t.Helper()
	return coreClient(t, &rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: contentType}})
}

// podsOf lists and watches the pods of a namespace, "" for all, that a selector selects.
func podsOf(c rest.Interface, namespace, selector string) *cache.ListWatch {
	return cache.NewListWatchFromClient(c, "pods", namespace, fields.ParseSelectorOrDie(selector))
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

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

// formats are the encodings that the server supports.
var formats = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

func listPods(t *testing.T, pods *cache.ListWatch) (*corev1.PodList, error) {
	list, err := pods.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.(*corev1.PodList), nil
}

// watchPods starts a watch, which ends with the test.
func watchPods(t *testing.T, pods *cache.ListWatch, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := pods.WatchWithContext(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
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
			pods := podsOf(remote(t, start(t, s), format), metav1.NamespaceAll, "spec.nodeName=n1")
			list, err := listPods(t, pods)
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != "here" {
				t.Fatal(list, err)
			}
			w := watchPods(t, pods, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			s.Apply(pod("there", "n2"), pod("there", "n1"), pod("here", "n1"), pod("here", "n2"))
			wantEvent(t, w, watch.Added, "there")
			wantEvent(t, w, watch.Modified, "here")
			wantEvent(t, w, watch.Deleted, "here")
			s.CutWatches()
			if e, open := <-w.ResultChan(); open {
				t.Errorf("%+v, want the end of the watch", e)
			}
		})
	}
}

// TestWatch_Replaced: an object with a new UID is another object.
func TestWatch_Replaced(t *testing.T) {
	s := kubeapi.New()
	s.Apply(pod("p", "n1"))
	w := watchPods(t, podsOf(remote(t, start(t, s), runtime.ContentTypeProtobuf), "shop", ""), metav1.ListOptions{})
	wantEvent(t, w, watch.Added, "p")
	next := pod("p", "n1")
	next.UID = "another"
	s.Apply(next)
	wantEvent(t, w, watch.Deleted, "p")
	wantEvent(t, w, watch.Added, "p")
}

// local returns a client without a socket: a test in a synctest bubble can tell when
// nothing more happens.
func local(t *testing.T, s *kubeapi.Server) rest.Interface {
	t.Helper()
	return coreClient(t, &rest.Config{Host: "http://api.invalid", Transport: kubeapi.Transport(s)})
}

func TestServer_StopEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubeapi.New()
		s.Apply(pod("p", "n1"))
		w := watchPods(t, podsOf(local(t, s), "shop", ""), metav1.ListOptions{AllowWatchBookmarks: true})
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
		api := local(t, s)
		pods := podsOf(api, "shop", "")
		s.DisableStreamingLists()
		streaming := metav1.ListOptions{SendInitialEvents: new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
		if _, err := pods.WatchWithContext(t.Context(), streaming); !apierrors.IsInvalid(err) {
			t.Errorf("streaming list: %v", err)
		}
		s.SetFault(kubeapi.Fail, "get")
		if _, err := listPods(t, pods); err != nil {
			t.Errorf("list: %v", err)
		}
		if err := api.Get().Namespace("shop").Resource("pods").Name("p").Do(t.Context()).Error(); !apierrors.IsInternalError(err) {
			t.Errorf("get: %v", err)
		}
	})
}

func TestServer_Rejects(t *testing.T) {
	s := kubeapi.New()
	s.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}})
	url := start(t, s)
	api := remote(t, url, runtime.ContentTypeJSON)
	slices, err := cluster.NewClient(
		&rest.Config{Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}},
		discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var ns corev1.Namespace
	if err := api.Get().Resource("namespaces").Name("kube-system").Do(ctx).Into(&ns); err != nil || ns.UID == "" {
		t.Error(ns, err)
	}
	var list discoveryv1.EndpointSliceList
	if err := slices.Get().Namespace("other").Resource("endpointslices").Do(ctx).Into(&list); err != nil || len(list.Items) != 0 {
		t.Error(list, err)
	}
	if err := api.Get().Resource("nodes").Name("n1").Do(ctx).Error(); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := api.Get().Namespace("shop").Resource("secrets").Do(ctx).Error(); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	s.SetFault(kubeapi.Forbid)
	if err := api.Get().Resource("services").Do(ctx).Error(); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	s.SetFault(nil)
	s.Forget()
	expired := metav1.ListOptions{ResourceVersion: "7", Watch: true}
	w, err := api.Get().Resource("services").VersionedParams(&expired, metav1.ParameterCodec).Watch(ctx)
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
	pods := podsOf(remote(t, start(t, s), runtime.ContentTypeProtobuf), metav1.NamespaceAll, "")
	changes := 0
	change := func() {
		s.Apply(pod("p", fmt.Sprint(changes)))
		changes++
	}
	change()
	first, err := listPods(t, pods)
	if err != nil {
		t.Fatal(err)
	}
	next := func() watch.Event {
		w, err := pods.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
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
