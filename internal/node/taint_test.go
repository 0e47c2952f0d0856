// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// The taints of the tests. startup is that of the taintRemover.
var (
	startup = corev1.Taint{Key: "dnsconfigurer.dev/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}
	gpu     = corev1.Taint{Key: "example.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	old     = corev1.Taint{
		Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute,
		TimeAdded: &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
)

// nodeAPI is an API server with a node, which can be patched, and with events.
type nodeAPI struct {
	*kubeapi.Server
	away atomic.Bool

	mu      sync.Mutex
	node    *corev1.Node
	before  func()           // is called before a patch is applied, once
	fault   http.HandlerFunc // answers patches; nil: none
	patches int
	events  []string // bodies
}

// change calls f, which changes a.
func (a *nodeAPI) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// sent returns what the taintRemover has sent.
func (a *nodeAPI) sent() (patches int, events []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.patches, a.events
}

func newNodeAPI(taints ...corev1.Taint) *nodeAPI {
	a := &nodeAPI{Server: kubeapi.New(), node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}}
	a.setTaints(taints...)
	return a
}

func (a *nodeAPI) setTaints(taints ...corev1.Taint) {
	a.node.Spec.Taints = taints
	a.Apply(a.node)
}

// taints returns the taints of the node.
func (a *nodeAPI) taints() []corev1.Taint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node.Spec.Taints
}

// RoundTrip fails while the API server is away.
func (a *nodeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.away.Load() {
		return nil, errors.New("connection refused")
	}
	return kubeapi.Transport(a).RoundTrip(r)
}

func (a *nodeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPatch:
		a.patch(w, r)
	case http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, string(body))
		w.WriteHeader(http.StatusCreated)
	default:
		a.Server.ServeHTTP(w, r)
	}
}

// patch applies a JSON patch as the API server does: completely, or not at all.
func (a *nodeAPI) patch(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patches++
	if a.fault != nil {
		a.fault(w, r)
		return
	}
	if a.before != nil {
		a.before()
		a.before = nil
	}
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.NewDecoder(r.Body).Decode(&operations); err != nil || len(operations) != 2 {
		http.Error(w, "not a patch", http.StatusBadRequest)
		return
	}
	for i, taint := range a.node.Spec.Taints {
		path := "/spec/taints/" + string('0'+rune(i))
		test, remove := operations[0], operations[1]
		if test.Op == "test" && remove.Op == "remove" && test.Path == path && remove.Path == path &&
			reflect.DeepEqual(test.Value, decoded(taint)) {
			taints := append([]corev1.Taint{}, a.node.Spec.Taints[:i]...)
			a.setTaints(append(taints, a.node.Spec.Taints[i+1:]...)...)
			w.WriteHeader(http.StatusOK)
			return
		}
	}
	answer(http.StatusUnprocessableEntity)(w, r)
}

// decoded returns v as JSON has it.
func decoded(v any) (out any) {
	text, err := json.Marshal(v)
	if err := errors.Join(err, json.Unmarshal(text, &out)); err != nil {
		panic(err)
	}
	return out
}

// answer responds with a code.
func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		})
	}
}

// start runs a taintRemover until the test ends, and returns what it logs. ready is its Ready.
func start(t *testing.T, a *nodeAPI, ready *atomic.Bool) *logbuffer.Buffer {
	t.Helper()
	c, err := cluster.NewClient(&rest.Config{Host: "http://api", Transport: a, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}},
		corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.Event{})
	if err != nil {
		t.Fatal(err)
	}
	log := &logbuffer.Buffer{}
	r := &taintRemover{
		Client: c, Node: "node1", Taint: Taint{Key: startup.Key, Effect: string(startup.Effect)}, Ready: ready.Load,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return log
}

func always() *atomic.Bool {
	ready := &atomic.Bool{}
	ready.Store(true)
	return ready
}

// expectTaints checks the taints of the node after a time.
func expectTaints(t *testing.T, a *nodeAPI, after time.Duration, want ...corev1.Taint) {
	t.Helper()
	time.Sleep(after) // of the bubble
	synctest.Wait()
	if diff := cmp.Diff(append([]corev1.Taint{}, want...), a.taints()); diff != "" {
		t.Errorf("taints after %v (-want +got):\n%s", after, diff)
	}
}

// expectPatches checks the number of patches that the API server got.
func expectPatches(t *testing.T, a *nodeAPI, want int) {
	t.Helper()
	if got, _ := a.sent(); got != want {
		t.Errorf("%d patches, want %d", got, want)
	}
}

// TestRemover removes the taint when the relay is connected, and again from a Node that was
// created anew. It keeps taints that differ in one part.
func TestRemover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, value, effect := startup, startup, startup
		key.Key += "x"
		value.Value = "x"
		effect.Effect = corev1.TaintEffectNoExecute
		a, ready := newNodeAPI(gpu, key, value, effect, startup, old), &atomic.Bool{}
		start(t, a, ready)
		expectTaints(t, a, time.Hour, gpu, key, value, effect, startup, old)
		if n := a.Requests()["get nodes"]; n != 0 {
			t.Errorf("%d requests before the relay is connected", n)
		}
		ready.Store(true)
		expectTaints(t, a, 2*readyPoll, gpu, key, value, effect, old)
		expectPatches(t, a, 1)
		if _, events := a.sent(); len(events) != 1 || !strings.Contains(events[0], "StartupTaintRemoved") {
			t.Errorf("events %q", events)
		}
		a.change(func() { a.setTaints(startup) })
		expectTaints(t, a, 2*recheck)
		expectPatches(t, a, 2)
		expectTaints(t, a, time.Hour)
		patches, _ := a.sent()
		if n := a.Requests()["get nodes"]; n > 70 || patches != 2 {
			t.Errorf("%d reads, %d patches", n, patches)
		}
	})
}

// TestRemover_Conflict changes the taints between the two calls: none is lost, and none is
// removed twice.
func TestRemover_Conflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNodeAPI(startup, old)
		a.before = func() { a.setTaints(gpu, startup, old) }
		log := start(t, a, always())
		expectTaints(t, a, 2*firstTaintRetry, gpu, old)
		expectPatches(t, a, 2)
		a.change(func() {
			a.setTaints(startup, gpu)
			a.before = func() { a.setTaints(gpu) } // another process was faster
		})
		expectTaints(t, a, 2*recheck, gpu)
		expectPatches(t, a, 3)
		if strings.Contains(log.String(), "level=WARN") {
			t.Errorf("log:\n%s", log)
		}
		a.change(func() {
			a.setTaints(startup)
			a.fault = answer(http.StatusConflict)
		})
		expectTaints(t, a, time.Hour, startup)
		if n := strings.Count(log.String(), "startup taint not removed"); n != 1 {
			t.Errorf("%d warnings about an hour of conflicts:\n%s", n, log)
		}
	})
}

// TestRemover_Forbidden lacks the right to patch nodes for an hour.
func TestRemover_Forbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNodeAPI(startup, gpu)
		a.fault = kubeapi.Forbid
		log := start(t, a, always())
		expectTaints(t, a, time.Hour, startup, gpu)
		patches, events := a.sent()
		if patches < 50 || patches > 70 {
			t.Errorf("%d patches in an hour", patches)
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "grant get and patch of nodes") {
			t.Errorf("log:\n%s", text)
		}
		if len(events) != 1 || !strings.Contains(events[0], "StartupTaintNotRemoved") {
			t.Errorf("events %q", events)
		}
		a.change(func() { a.fault = nil })
		expectTaints(t, a, 2*lastTaintRetry, gpu)
		expectPatches(t, a, patches+1)
	})
}

// TestRemover_Unreachable has an API server that is away for an hour, then fails, and at last does not
// answer a call, which ends.
func TestRemover_Unreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNodeAPI(startup)
		a.away.Store(true)
		log := start(t, a, always())
		expectTaints(t, a, time.Hour, startup)
		a.SetFault(kubeapi.Fail)
		a.away.Store(false)
		expectTaints(t, a, time.Hour, startup)
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings:\n%s", n, log)
		}
		a.SetFault(kubeapi.Stall)
		expectTaints(t, a, 2*lastTaintRetry, startup)
		a.SetFault(nil)
		expectTaints(t, a, callTimeout+2*lastTaintRetry)
	})
}
