// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// apiServer speaks of the Kubernetes API what the feeds ask: lists and watches of
// whole resources. It fails the test when it is asked for more.
type apiServer struct {
	t testing.TB

	mu        sync.Mutex
	events    []event
	version   int           // resource version of the last event
	oldest    int           // watches from before this version are 410 Gone
	news      chan struct{} // closed when there is something new
	cut       chan struct{} // closed to end the watches
	listsOnly bool          // no streaming lists, as before Kubernetes 1.34
	refuses   bool          // there is no server
	hangs     map[string]bool
	asked     map[string]int // by resource
}

type event struct {
	version  int
	kind     string
	resource string
	object   object4
}

// object4 is one of the four types.
type object4 interface {
	runtime.Object
	metav1.Object
}

func newAPIServer(t testing.TB, objects ...object4) *apiServer {
	s := &apiServer{
		t: t, version: 100, hangs: map[string]bool{}, asked: map[string]int{}, news: make(chan struct{}), cut: make(chan struct{}),
	}
	for _, o := range objects {
		s.put(o)
	}
	return s
}

func resourceOf(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Namespace:
		return "namespaces"
	case *corev1.Service:
		return "services"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	}
	return "pods"
}

func (s *apiServer) put(o object4) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	for _, e := range s.nowLocked(resourceOf(o)) {
		if e.object.GetNamespace() == o.GetNamespace() && e.object.GetName() == o.GetName() {
			kind = "MODIFIED"
		}
	}
	s.tellLocked(kind, o)
}

func (s *apiServer) remove(o object4) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked("DELETED", o)
}

// bookmark tells the watches of a resource that they have missed nothing.
func (s *apiServer) bookmark(o object4) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked("BOOKMARK", o)
}

func (s *apiServer) tellLocked(kind string, o object4) {
	s.version++
	o = o.DeepCopyObject().(object4)
	o.SetResourceVersion(strconv.Itoa(s.version))
	resource := resourceOf(o)
	gvk := corev1.SchemeGroupVersion.WithKind(map[string]string{"namespaces": "Namespace", "services": "Service", "pods": "Pod"}[resource])
	if resource == "endpointslices" {
		gvk = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	s.events = append(s.events, event{s.version, kind, resource, o})
	s.wakeLocked()
}

func (s *apiServer) wakeLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// cutWatches ends all watches; with forget they cannot go on where they were.
func (s *apiServer) cutWatches(forget bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if forget {
		s.version += 10
		s.oldest = s.version
	}
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.wakeLocked()
}

// nowLocked returns the events that make a resource what it is.
func (s *apiServer) nowLocked(resource string) []event {
	var now []event
	for _, e := range s.events {
		if e.resource != resource || e.kind == "BOOKMARK" {
			continue
		}
		rest := now[:0]
		for _, old := range now {
			if old.object.GetNamespace() != e.object.GetNamespace() || old.object.GetName() != e.object.GetName() {
				rest = append(rest, old)
			}
		}
		now = rest
		if e.kind != "DELETED" {
			e.kind = "ADDED"
			now = append(now, e)
		}
	}
	return now
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := path.Base(r.URL.Path)
	known := map[string]bool{"/api/v1/namespaces": true, "/api/v1/services": true, "/api/v1/pods": true, "/apis/discovery.k8s.io/v1/endpointslices": true}
	selector := r.URL.Query().Get("fieldSelector")
	if r.Method != http.MethodGet || !known[r.URL.Path] || selector != "" && resource != "pods" {
		s.t.Errorf("%s %s", r.Method, r.URL)
	}
	s.mu.Lock()
	s.asked[resource]++
	for s.hangs[resource] {
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		s.watch(w, r, resource)
	} else {
		s.list(w, resource)
	}
}

func (s *apiServer) list(w http.ResponseWriter, resource string) {
	s.mu.Lock()
	items := []object4{}
	for _, e := range s.nowLocked(resource) {
		items = append(items, e.object)
	}
	list := map[string]any{"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, "items": items}
	s.mu.Unlock()
	list["apiVersion"], list["kind"] = "v1", map[string]string{"namespaces": "NamespaceList", "services": "ServiceList", "pods": "PodList"}[resource]
	if resource == "endpointslices" {
		list["apiVersion"], list["kind"] = "discovery.k8s.io/v1", "EndpointSliceList"
	}
	answerJSON(w, http.StatusOK, list)
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	stream := r.URL.Query().Get("sendInitialEvents") == "true"
	out := json.NewEncoder(w)
	send := func(kind string, object any) {
		_ = out.Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	s.mu.Lock()
	cut, first := s.cut, s.nowLocked(resource)
	switch {
	case stream && s.listsOnly:
		s.mu.Unlock()
		answerJSON(w, http.StatusUnprocessableEntity, statusOf(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid))
		return
	case stream:
		from = s.version
	case from < s.oldest:
		s.mu.Unlock()
		send("ERROR", statusOf(http.StatusGone, metav1.StatusReasonExpired))
		return
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	if stream {
		for _, e := range first {
			send(e.kind, e.object)
		}
		send("BOOKMARK", endOfList(resource, from))
	}
	for {
		s.mu.Lock()
		news, events := s.news, s.events
		s.mu.Unlock()
		for _, e := range events {
			if e.version > from && e.resource == resource {
				send(e.kind, e.object)
				from = e.version
			}
		}
		select {
		case <-news:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func endOfList(resource string, version int) any {
	kind, api := map[string]string{"namespaces": "Namespace", "services": "Service", "pods": "Pod"}[resource], "v1"
	if resource == "endpointslices" {
		kind, api = "EndpointSlice", "discovery.k8s.io/v1"
	}
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: api, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}
}

func statusOf(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	}
}

func answerJSON(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// clientOf returns a client for the types of a group at host; transport nil is the
// network.
func clientOf(t testing.TB, host string, transport http.RoundTripper, version schema.GroupVersion, types ...runtime.Object) rest.Interface {
	t.Helper()
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(version, types...)
	metav1.AddToGroupVersion(kinds, version)
	apiPath := "/apis"
	if version.Group == "" {
		apiPath = "/api"
	}
	c, err := rest.RESTClientFor(&rest.Config{
		Host: host, QPS: -1, Transport: transport, APIPath: apiPath,
		ContentConfig: rest.ContentConfig{
			GroupVersion: &version, NegotiatedSerializer: serializer.NewCodecFactory(kinds).WithoutConversion(),
			ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clients returns clients of both groups.
func clients(t testing.TB, host string, transport http.RoundTripper) (core, discovery rest.Interface) {
	t.Helper()
	return clientOf(t, host, transport, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{},
			&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{}),
		clientOf(t, host, transport, discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
}

// RoundTrip hands requests to the server without a socket, for tests with a clock of
// their own.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	refuses := s.refuses
	s.mu.Unlock()
	if refuses {
		return nil, syscall.ECONNREFUSED
	}
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })
	w := &pipeResponse{header: http.Header{}, out: out, started: make(chan int, 1)}
	go func() {
		s.ServeHTTP(w, r.WithContext(ctx))
		w.WriteHeader(http.StatusOK)
		_ = out.Close()
	}()
	select {
	case code := <-w.started:
		closed := closer{body, func() { stop(); cancel(); _ = body.Close() }}
		return &http.Response{
			Status: fmt.Sprint(code), StatusCode: code, Header: w.header, Body: closed, Request: r,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

type closer struct {
	io.Reader
	close func()
}

func (c closer) Close() error { c.close(); return nil }

type pipeResponse struct {
	header  http.Header
	out     *io.PipeWriter
	started chan int
	once    sync.Once
}

func (w *pipeResponse) Header() http.Header  { return w.header }
func (w *pipeResponse) WriteHeader(code int) { w.once.Do(func() { w.started <- code }) }
func (w *pipeResponse) Flush()               { w.WriteHeader(http.StatusOK) }
func (w *pipeResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}
