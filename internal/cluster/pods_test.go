// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestMain removes client-go's error handlers. One of them sleeps until some time after the
// last error of the process, which may be decades ahead of the clock in a synctest bubble.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// newPod returns a pod of the node whose hostname contains its UID.
func newPod(namespace, name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uid),
			Annotations: map[string]string{policy.OverrideAnnotation: "Default", "example.com/large": strings.Repeat("x", 1000)},
			Labels:      map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{
			NodeName: node, DNSPolicy: corev1.DNSClusterFirst, Hostname: "host-of-" + uid,
			DNSConfig: &corev1.PodDNSConfig{Searches: []string{"example.com"},
				Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}}},
			Containers: []corev1.Container{{Name: "c", Image: "example.com/image:1"}},
		},
	}
}

func newMirror(namespace, name, uid, static string) *corev1.Pod {
	pod := newPod(namespace, name, uid)
	pod.Annotations[corev1.MirrorPodAnnotationKey] = static
	pod.Annotations[kube.ConfigSourceAnnotation] = "file"
	return pod
}

func refOf(pod *corev1.Pod) cluster.Ref {
	return cluster.Ref{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Annotations: map[string]string{kube.ConfigSourceAnnotation: "api",
			policy.OverrideAnnotation: pod.Annotations[policy.OverrideAnnotation]},
	}
}

func staticRef(namespace, name, uid string) cluster.Ref {
	return cluster.Ref{
		Namespace: namespace, Name: name, UID: uid,
		Annotations: map[string]string{kube.ConfigSourceAnnotation: "file", "kubernetes.io/config.hash": uid},
	}
}

// start runs a Pods until the function that it returns is called.
func start(t testing.TB, cfg cluster.PodsConfig) (*cluster.Pods, func()) {
	t.Helper()
	cfg.NodeName = node
	p := must.Get(cluster.NewPods(cfg))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	return p, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// inBubble runs test in a synctest bubble, with a server and a Pods that has done all that
// takes no time. A goroutine that does not end fails the test.
func inBubble(t *testing.T, s func(t *testing.T) *apiServer, test func(*testing.T, *apiServer, *cluster.Pods)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := s(t)
		p, stop := start(t, cluster.PodsConfig{Client: server.local()})
		defer stop()
		synctest.Wait()
		test(t, server, p)
	})
}

func serving(pods ...*corev1.Pod) func(*testing.T) *apiServer {
	return func(t *testing.T) *apiServer { return newAPIServer(t, pods...) }
}

// unsynced returns a server on which lists and watches stall.
func unsynced(pods ...*corev1.Pod) func(*testing.T) *apiServer {
	return func(t *testing.T) *apiServer {
		s := newAPIServer(t, pods...)
		s.setFaults(nil, kubeapi.Stall)
		return s
	}
}

// expect looks ref up, and wants it after exactly that time.
func expect(t *testing.T, p *cluster.Pods, ref cluster.Ref, after time.Duration) {
	t.Helper()
	began := time.Now()
	pod, err := p.Lookup(t.Context(), ref)
	if err != nil || pod.UID != ref.UID || pod.Name != ref.Name || pod.Namespace != ref.Namespace {
		t.Errorf("%s: got %s/%s (UID %s), %v", ref, pod.Namespace, pod.Name, pod.UID, err)
	}
	if took := time.Since(began); took != after {
		t.Errorf("%s: took %v, want %v", ref, took, after)
	}
}

// expectError looks ref up, and wants an error after exactly that time.
func expectError(t *testing.T, p *cluster.Pods, ref cluster.Ref, want error, after time.Duration) error {
	t.Helper()
	began := time.Now()
	pod, err := p.Lookup(t.Context(), ref)
	if err == nil || want != nil && !errors.Is(err, want) || pod.UID != "" {
		t.Errorf("%s: got %+v, %v; want %v", ref, pod, err, want)
	}
	if took := time.Since(began); took != after {
		t.Errorf("%s: took %v, want %v", ref, took, after)
	}
	return err
}

// TestLookup_Equal: the informer keeps of a pod what the API server's pod has.
func TestLookup_Equal(t *testing.T) {
	web := newPod("shop", "web", "u1")
	inBubble(t, serving(web), func(t *testing.T, _ *apiServer, p *cluster.Pods) {
		if got, err := p.Lookup(t.Context(), refOf(web)); err != nil || !cmp.Equal(got, kube.FromPod(web)) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestBreaker_HalfOpen: after the pause one call of many is allowed.
func TestBreaker_HalfOpen(t *testing.T) {
	inBubble(t, unsynced(newPod("shop", "web", "u1")), func(t *testing.T, s *apiServer, p *cluster.Pods) {
		s.setFaults(kubeapi.Stall, kubeapi.Stall)
		for i := range 5 {
			_, _ = p.Lookup(t.Context(), refOf(newPod("shop", "web", fmt.Sprint("u", i))))
		}
		time.Sleep(10 * time.Second)
		before := s.count("get")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _, _ = p.Lookup(t.Context(), refOf(newPod("shop", "web", fmt.Sprint("u", i)))) })
		}
		all.Wait()
		if s.count("get") != before+1 {
			t.Errorf("%d GETs when half open", s.count("get")-before)
		}
	})
}

func TestLookup_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t)
		s.setFaults(kubeapi.Stall, nil)
		var log strings.Builder
		p, stop := start(t, cluster.PodsConfig{
			Client: s.local(), InformerWait: time.Minute, GetTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer stop()
		synctest.Wait()
		ref := refOf(newPod("shop", "web", "u1"))
		for range 6 {
			expectError(t, p, ref, context.DeadlineExceeded, time.Second)
			synctest.Wait()
		}
		if s.count("get") != 0 || log.Len() > 0 { // the breaker does not count these
			t.Errorf("%d GETs, logged %s", s.count("get"), &log)
		}

		// A caller that gives up returns at once. The lookup goes on for the others.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		left := make(chan time.Duration)
		go func() {
			began := time.Now()
			if _, err := p.Lookup(ctx, ref); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			left <- time.Since(began)
		}()
		synctest.Wait()
		time.AfterFunc(100*time.Millisecond, func() { s.Apply(newPod("shop", "web", "u1")) })
		expect(t, p, ref, 100*time.Millisecond)
		if d := <-left; d != 10*time.Millisecond {
			t.Errorf("left after %v", d)
		}
	})
}

// TestLookup_TimeoutSet: a quarter of the timeout is for the watch, half of it for the GET, and a
// lookup that is shared by slow callers ends with it.
func TestLookup_TimeoutSet(t *testing.T) {
	for _, timeout := range []time.Duration{100 * time.Millisecond, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			web, db := newPod("shop", "web", "u1"), newPod("shop", "db", "u2")
			s := newAPIServer(t)
			p, stop := start(t, cluster.PodsConfig{Client: s.local(), Timeout: timeout})
			defer stop()
			synctest.Wait()
			time.AfterFunc(timeout/4-1, func() { s.Apply(web) })
			expect(t, p, refOf(web), timeout/4-1)
			expectError(t, p, refOf(db), cluster.ErrNotFound, timeout/4)

			s.StopEvents()
			s.Apply(db)
			s.getDelay.Store(int64(timeout/2 - 1))
			expect(t, p, refOf(db), 3*timeout/4-1)
			s.getDelay.Store(int64(timeout/2 + 1))
			expectError(t, p, refOf(db), context.DeadlineExceeded, 3*timeout/4)
			time.Sleep(time.Nanosecond) // the server ends its response
		})
	}
}

func TestLookup_Concurrent(t *testing.T) {
	web := newPod("shop", "web", "u1")
	many := func(t *testing.T, p *cluster.Pods, pods func(int) *corev1.Pod) {
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() { expect(t, p, refOf(pods(i)), 350*time.Millisecond) })
		}
		all.Wait()
	}
	slow := func(s *apiServer) {
		s.getDelay.Store(int64(100 * time.Millisecond))
		s.StopEvents()
	}
	inBubble(t, serving(), func(t *testing.T, s *apiServer, p *cluster.Pods) {
		slow(s)
		s.Apply(web)
		many(t, p, func(int) *corev1.Pod { return web })
		if s.count("get") != 1 {
			t.Errorf("one pod: %d GETs", s.count("get"))
		}
	})
	inBubble(t, serving(), func(t *testing.T, s *apiServer, p *cluster.Pods) {
		slow(s)
		var pods []*corev1.Pod
		for i := range 500 {
			pods = append(pods, newPod("shop", fmt.Sprint("web-", i), fmt.Sprint("u", i)))
			s.Apply(pods[i])
		}
		many(t, p, func(i int) *corev1.Pod { return pods[i] })
		if s.count("get") != 500 {
			t.Errorf("500 pods: %d GETs", s.count("get"))
		}
	})
}

func TestLookup_Panic(t *testing.T) {
	p := must.Get(cluster.NewPods(cluster.PodsConfig{NodeName: node, Client: clientOf(t, "http://api.invalid", panics{})}))(t)
	if _, err := p.Lookup(t.Context(), refOf(newPod("shop", "web", "u1"))); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
}

// TestRun_Stop: Run returns at once, also during a backoff.
func TestRun_Stop(t *testing.T) {
	for pause := range 20 {
		synctest.Test(t, func(t *testing.T) {
			_, stop := start(t, cluster.PodsConfig{Client: clientOf(t, "http://api.invalid", refuses{})})
			time.Sleep(time.Duration(pause) * 7 * time.Second)
			synctest.Wait()
			began := time.Now()
			if stop(); time.Since(began) > 0 {
				t.Errorf("took %v", time.Since(began))
			}
		})
	}
}

type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("no transport") }

func TestNew_Config(t *testing.T) {
	if p, err := cluster.NewPods(cluster.PodsConfig{}); err == nil {
		t.Errorf("without a node name: %+v", p)
	}
	p, err := cluster.NewPods(cluster.PodsConfig{NodeName: node, Timeout: time.Minute}) // without API server and manifests
	if err != nil {
		t.Fatal(err)
	}
	web := refOf(newPod("shop", "web", "u1"))
	for _, ref := range []cluster.Ref{web, {}, {UID: "u1"}, staticRef("kube-system", "etcd", "hash")} {
		if _, err := p.Lookup(t.Context(), ref); !errors.Is(err, cluster.ErrNotFound) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
}

// TestLookup_Faults: over the network, a lookup ends in time with the right kind of error,
// and so does Run.
func TestLookup_Faults(t *testing.T) {
	for name, c := range map[string]struct {
		fault http.HandlerFunc // nil: no server
		want  error            // nil: another error than those of Lookup's comment
	}{
		"stalls":       {kubeapi.Stall, context.DeadlineExceeded},
		"no end":       {stallInBody, context.DeadlineExceeded},
		"truncated":    {kubeapi.Truncate, nil},
		"HTML":         {sendHTML, nil},
		"another kind": {sendJSON(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","uid":"u1"}}`), nil},
		"null":         {sendJSON("null"), cluster.ErrNotFound},
		"no UID":       {sendJSON(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`), cluster.ErrNotFound},
		"500":          {kubeapi.Fail, nil},
		"refused":      {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			s.setFaults(c.fault, c.fault)
			ts := httptest.NewServer(s)
			defer ts.Close()
			url := ts.URL
			if c.fault == nil {
				url = "http://" + process.Loopback(t, 1)[0]
			}
			lookupWithFault(t, url, c.want)
		})
	}
}

// losesConnections is a transport that loses the connections of the first requests for single pods,
// before or within the response.
type losesConnections struct {
	http.RoundTripper
	how  string
	left int
}

func (l *losesConnections) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/v1/pods" || l.left == 0 {
		return l.RoundTripper.RoundTrip(r)
	}
	l.left--
	switch l.how {
	case "reset":
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	case "closed":
		return nil, io.EOF
	case "without reply to a ping":
		return nil, errors.New("http2: client connection lost")
	}
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(response.Body, 10), iotest.ErrReader(io.ErrUnexpectedEOF)), response.Body}
	}
	return response, err
}

// TestLookup_ConnectionLost: a request whose connection is lost, because an API server ends, is sent
// again at once: there may be another API server. If that connection is lost, too, the lookup fails.
func TestLookup_ConnectionLost(t *testing.T) {
	for _, how := range []string{"reset", "closed", "without reply to a ping", "within the response"} {
		t.Run(how, func(t *testing.T) {
			web := newPod("shop", "web", "u1")
			synctest.Test(t, func(t *testing.T) {
				s := unsynced(web)(t)
				network := &losesConnections{RoundTripper: kubeapi.Transport(s), how: how, left: 1}
				p, stop := start(t, cluster.PodsConfig{Client: clientOf(t, "http://api.invalid", network)})
				defer stop()
				synctest.Wait()
				expect(t, p, refOf(web), 0)
				network.left = 2
				expectError(t, p, refOf(web), nil, 0)
			})
		})
	}
}

func lookupWithFault(t *testing.T, url string, want error) {
	t.Helper()
	cfg := cluster.PodsConfig{Client: clientOf(t, url, nil)}
	if want != context.DeadlineExceeded { // a busy machine must not make it late
		cfg.GetTimeout, cfg.Timeout = time.Minute, 2*time.Minute
	}
	p, stop := start(t, cfg)
	defer func() {
		began := time.Now()
		if stop(); time.Since(began) > slack {
			t.Errorf("stopping took %v", time.Since(began))
		}
	}()
	began := time.Now()
	_, err := p.Lookup(t.Context(), refOf(newPod("shop", "web", "u1")))
	if took := time.Since(began); took > slack {
		t.Errorf("took %v", took)
	}
	for _, kind := range []error{context.DeadlineExceeded, cluster.ErrNotFound} {
		if err == nil || errors.Is(err, kind) != (want == kind) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
