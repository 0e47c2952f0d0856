// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

const node = "node-1"

// apiServer speaks of the Kubernetes API what reads pods: GET of one, list and watch
// of a node's. It fails the test when it is asked for more.
type apiServer struct {
	t testing.TB

	mu        sync.Mutex
	pods      map[string]*corev1.Pod // by namespace/name
	events    []event
	version   int           // resource version of the last event
	oldest    int           // watches from before this version are 410 Gone
	news      chan struct{} // closed with each event
	cut       chan struct{} // closed to end the watches
	listsOnly bool          // no streaming lists, as before Kubernetes 1.34
	getFault  http.HandlerFunc
	listFault http.HandlerFunc
	asked     map[string]int // requests by kind: get, list, watch
}

type event struct {
	version int
	kind    string
	pod     *corev1.Pod
}

func newAPIServer(t testing.TB, pods ...*corev1.Pod) *apiServer {
	s := &apiServer{
		t: t, version: 100, pods: map[string]*corev1.Pod{}, asked: map[string]int{},
		news: make(chan struct{}), cut: make(chan struct{}),
	}
	for _, p := range pods {
		s.put(p)
	}
	return s
}

// put creates or changes a pod, and tells the watches.
func (s *apiServer) put(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, kind := pod.Namespace+"/"+pod.Name, "ADDED"
	if old, ok := s.pods[key]; ok {
		if kind = "MODIFIED"; old.UID != pod.UID {
			s.tellLocked("DELETED", old)
			kind = "ADDED"
		}
	}
	s.pods[key] = pod
	s.tellLocked(kind, pod)
}

// putSilently is put for a pod that the watches hear nothing of.
func (s *apiServer) putSilently(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.Namespace+"/"+pod.Name] = pod
}

func (s *apiServer) remove(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, pod.Namespace+"/"+pod.Name)
	s.tellLocked("DELETED", pod)
}

func (s *apiServer) tellLocked(kind string, pod *corev1.Pod) {
	s.version++
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.events = append(s.events, event{s.version, kind, pod})
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

func (s *apiServer) setFaults(get, list http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.getFault, s.listFault = get, list
}

// count returns how many requests of a kind there were.
func (s *apiServer) count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[kind]
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kind := "get"
	if r.URL.Path == "/api/v1/pods" {
		if kind = "list"; q.Get("watch") == "true" || q.Get("watch") == "1" {
			kind = "watch"
		}
	}
	s.mu.Lock()
	s.asked[kind]++
	fault := s.listFault
	if kind == "get" {
		fault = s.getFault
	}
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodGet:
		s.t.Errorf("%s %s", r.Method, r.URL)
	case fault != nil:
		fault(w, r)
	case kind == "get":
		s.get(w, r, q)
	case q.Get("fieldSelector") != "spec.nodeName="+node:
		s.t.Errorf("%s of pods with field selector %q", kind, q.Get("fieldSelector"))
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case kind == "list":
		s.list(w)
	default:
		s.watch(w, r, q)
	}
}

func (s *apiServer) get(w http.ResponseWriter, r *http.Request, q url.Values) {
	part := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NS/pods/NAME
	if len(part) != 7 || part[3] != "namespaces" || part[5] != "pods" || q.Get("resourceVersion") != "0" {
		s.t.Errorf("GET %s", r.URL)
	}
	s.mu.Lock()
	pod, ok := s.pods[part[4]+"/"+part[6]]
	s.mu.Unlock()
	if !ok {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	answerJSON(w, http.StatusOK, pod)
}

func (s *apiServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, e := range s.nowLocked() {
		list.Items = append(list.Items, *e.pod)
	}
	s.mu.Unlock()
	answerJSON(w, http.StatusOK, list)
}

// nowLocked returns the events that make the node's pods what they are.
func (s *apiServer) nowLocked() []event {
	now := map[string]event{}
	for _, e := range s.events {
		if e.kind == "DELETED" {
			delete(now, string(e.pod.UID))
		} else if e.pod.Spec.NodeName == node {
			now[string(e.pod.UID)] = event{e.version, "ADDED", e.pod}
		}
	}
	var events []event
	for _, e := range now {
		events = append(events, e)
	}
	return events
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, q url.Values) {
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	stream := q.Get("sendInitialEvents") == "true"
	out := json.NewEncoder(w)
	send := func(kind string, object any) {
		_ = out.Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	s.mu.Lock()
	cut, first := s.cut, s.nowLocked()
	switch {
	case stream && s.listsOnly:
		s.mu.Unlock()
		status(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
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
			send(e.kind, e.pod)
		}
		send("BOOKMARK", &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: strconv.Itoa(from), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		})
	}
	for {
		s.mu.Lock()
		news, events := s.news, s.events
		s.mu.Unlock()
		for _, e := range events {
			if e.version > from && e.pod.Spec.NodeName == node {
				send(e.kind, e.pod)
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

func statusOf(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	}
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	answerJSON(w, code, statusOf(code, reason))
}

func answerJSON(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// The faults of a server.

// halfHang separates what waits for a server that hangs from what does not, on a busy
// machine too. The tests in a bubble have the exact times.
const halfHang = 5 * time.Second

func hangs(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(2 * halfHang):
	case <-r.Context().Done():
	}
}

func rubbish(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"uid":7`)
}

func isHTML(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html>Please log in</html>")
}

func fails(w http.ResponseWriter, _ *http.Request) {
	status(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
}

func forbids(w http.ResponseWriter, _ *http.Request) {
	status(w, http.StatusForbidden, metav1.StatusReasonForbidden)
}

// drips begins an answer and does not end it.
func drips(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Pod",`)
	w.(http.Flusher).Flush()
	hangs(w, r)
}

// clientOf returns a client of the API at host; transport nil is the network.
func clientOf(t testing.TB, host string, transport http.RoundTripper) rest.Interface {
	t.Helper()
	c, err := client.New(&rest.Config{Host: host, QPS: -1, Transport: transport}, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// local is a client of the server without a socket, for tests with a clock of their own.
func (s *apiServer) local() rest.Interface {
	return clientOf(s.t, "http://api.invalid", handlerTransport{s})
}

// handlerTransport hands requests to a handler in this process.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })
	w := &pipeResponse{header: http.Header{}, out: out, started: make(chan int, 1)}
	go func() {
		h.ServeHTTP(w, r.WithContext(ctx))
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
