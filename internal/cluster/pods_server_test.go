// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const node = "node-1"

// slack separates a lookup that waits for a stalling server from one that does not, on a
// busy machine too. The tests in a synctest bubble check the exact times.
const slack = 20 * time.Second

// apiServer is an API server that fails the test on requests that a Pods must not send.
type apiServer struct {
	*kubeapi.Server
	t        testing.TB
	getDelay atomic.Int64                   // in nanoseconds
	stale    atomic.Pointer[kubeapi.Server] // the cache of the API server; nil: up to date
}

func newAPIServer(t testing.TB, pods ...*corev1.Pod) *apiServer {
	s := &apiServer{Server: kubeapi.New(), t: t}
	for _, p := range pods {
		s.Apply(p)
	}
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, path := r.URL.Query(), strings.Split(r.URL.Path, "/")
	switch {
	case r.Method != http.MethodGet:
		s.t.Errorf("unexpected request: %s %s", r.Method, r.URL)
	case r.URL.Path == "/api/v1/pods":
		if q.Get("fieldSelector") != "spec.nodeName="+node { // the node authorizer requires it
			s.t.Errorf("unexpected field selector: %s", r.URL)
		}
	case len(path) == 7 && path[3] == "namespaces" && path[5] == "pods":
		if version := q.Get("resourceVersion"); version != "0" && version != "" {
			s.t.Errorf("unexpected resource version: %s", r.URL)
		}
		if stale := s.stale.Load(); stale != nil && q.Get("resourceVersion") == "0" {
			stale.ServeHTTP(w, r)
			return
		}
		time.Sleep(time.Duration(s.getDelay.Load()))
	default:
		s.t.Errorf("unexpected request: %s", r.URL)
	}
	s.Server.ServeHTTP(w, r)
}

// setFaults sets the fault for a GET, and the one for a list or watch.
func (s *apiServer) setFaults(get, list http.HandlerFunc) {
	s.SetFault(get, "get")
	s.SetFault(list, "list", "watch")
}

// count returns the number of requests with a verb.
func (s *apiServer) count(verb string) int { return s.Requests()[verb+" pods"] }

// local returns a client without a socket, for tests in a synctest bubble.
func (s *apiServer) local() rest.Interface {
	return clientOf(s.t, "http://api.invalid", kubeapi.Transport(s))
}

// clientOf returns a client of the API at host; transport nil is the network.
func clientOf(t testing.TB, host string, transport http.RoundTripper) rest.Interface {
	t.Helper()
	c := must.Get(cluster.NewClient(&rest.Config{Host: host, QPS: -1, Transport: transport},
		corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}))(t)
	return c
}

// sendHTML is a fault: the response of a login page.
func sendHTML(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html>Please log in</html>")
}

// sendJSON returns a fault: a response with a text.
func sendJSON(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// stallInBody is a fault: a response that begins and does not end.
func stallInBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Pod",`)
	w.(http.Flusher).Flush()
	kubeapi.Stall(w, r)
}

// slowBodies is a fault: the pods of the namespace hostile have large objects that do not end. It
// counts the replies that the client reads beyond the limit of small requests.
type slowBodies struct{ reading atomic.Int32 }

func (b *slowBodies) serve(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/namespaces/hostile/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := fmt.Fprintf(w, `{"kind":"Pod","metadata":{"annotations":{"a":"%s`, strings.Repeat("x", 200<<10)); err != nil {
			return // the client has closed it
		}
		b.reading.Add(1)
		defer b.reading.Add(-1)
		kubeapi.Stall(w, r)
	}
}

// TestLookup_HostileTenant: a tenant starts 100 pods at once whose objects are large and slow to
// request. A few are requested at a time, the pods of others are found without delay, and the circuit
// breaker stays closed. The watch has delivered none of the pods.
func TestLookup_HostileTenant(t *testing.T) {
	web := newPod("shop", "web", "u1")
	synctest.Test(t, func(t *testing.T) {
		s, bodies := newAPIServer(t, web), new(slowBodies)
		s.setFaults(nil, kubeapi.Stall)
		api := clientOf(t, "http://api.invalid", kubeapi.Transport(bodies.serve(s)))
		p, stop := start(t, cluster.PodsConfig{Client: api})
		defer stop()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				pod := newPod("hostile", fmt.Sprint("p", i), fmt.Sprint("h", i))
				if _, err := p.Lookup(t.Context(), refOf(pod)); err == nil {
					t.Error("a pod was found that never arrived")
				}
			})
		}
		for range 3 {
			synctest.Wait()
			if n := bodies.reading.Load(); n != 5 {
				t.Errorf("%d large pods are requested at once, want 5", n)
			}
			expect(t, p, refOf(web), 0)
			time.Sleep(300 * time.Millisecond)
		}
		all.Wait()
		expect(t, p, refOf(web), 0)
	})
}
