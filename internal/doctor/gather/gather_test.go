// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

// api is an API server with a number of pods. It accepts GET only.
type api struct {
	t      *testing.T
	pods   int
	status map[string]int // of resources that fail, and of ConfigMaps by name

	mu       sync.Mutex
	requests []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.URL.String())
	a.mu.Unlock()
	if r.Method != http.MethodGet {
		a.t.Errorf("%s %s", r.Method, r.URL)
	}
	resource := path.Base(r.URL.Path)
	if strings.Contains(r.URL.Path, "/configmaps/") {
		resource = "configmaps"
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if code := cmp.Or(a.status[resource], a.status[path.Base(r.URL.Path)]); code != 0 {
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound: metav1.StatusReasonNotFound}[code]
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"test","code":%d}`, reason, code)
		return
	}
	items := []any{}
	metadata := map[string]string{}
	query := r.URL.Query()
	switch resource {
	case "services":
		items = append(
			items,
			map[string]any{
				"metadata": map[string]string{"namespace": "kube-system", "name": "kube-dns"},
				"spec":     map[string]any{"clusterIP": "10.96.0.10", "selector": map[string]string{"k8s-app": "kube-dns"}},
			},
		)
	case "pods":
		limit, err := strconv.Atoi(query.Get("limit"))
		if err != nil {
			a.t.Errorf("%s: %v", r.URL, err)
		}
		first, _ := strconv.Atoi(query.Get("continue"))
		last := min(first+limit, a.pods)
		for i := range last - first {
			items = append(items, map[string]any{
				"metadata": map[string]any{
					"namespace": "kube-system",
					"name":      fmt.Sprint("p", first+i),
					"labels":    map[string]string{"k8s-app": "kube-dns"},
				},
				"spec": map[string]any{"volumes": []any{map[string]any{
					"name":      "c",
					"configMap": map[string]string{"name": fmt.Sprint("c", (first+i)%30)},
				}}},
			})
		}
		if last < a.pods {
			metadata["continue"] = strconv.Itoa(last)
		}
	case "configmaps":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind":       "ConfigMap",
			"apiVersion": "v1",
			"metadata":   map[string]string{"name": path.Base(r.URL.Path), "namespace": "kube-system"},
		})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": metadata, "items": items})
}

func snapshot(t *testing.T, a *api, limit int) *doctor.Snapshot {
	t.Helper()
	a.t = t
	server := httptest.NewServer(a)
	defer server.Close()
	s, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: limit})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSnapshot_Pages reads 1,200 pods in three requests, and ten ConfigMaps at most.
func TestSnapshot_Pages(t *testing.T) {
	a := &api{pods: 1200}
	s := snapshot(t, a, 5000)
	if len(s.Pods) != 1200 || len(s.Unread) > 0 || len(s.ConfigMaps) != maxConfigMaps {
		t.Errorf("%d pods, %d ConfigMaps, unread: %v", len(s.Pods), len(s.ConfigMaps), s.Unread)
	}
	pages := 0
	for _, r := range a.requests {
		if strings.HasPrefix(r, "/api/v1/pods") {
			pages++
		}
	}
	if pages != 3 || len(a.requests) > 40 {
		t.Errorf("%d pages, requests: %q", pages, a.requests)
	}
}

// TestSnapshot_MaxObjects: what was left out is not taken for absent.
func TestSnapshot_MaxObjects(t *testing.T) {
	for pods, complete := range map[int]bool{600: true, 601: false} {
		s := snapshot(t, &api{pods: pods}, 600)
		if len(s.Pods) != 600 || (s.Unread[doctor.Pods] == "") != complete {
			t.Errorf("of %d: %d pods, unread: %v", pods, len(s.Pods), s.Unread)
		}
	}
}

func TestSnapshot_Unread(t *testing.T) {
	s := snapshot(t, &api{pods: 1, status: map[string]int{
		"networkpolicies": http.StatusForbidden, "validatingadmissionpolicies": http.StatusNotFound,
		"nodes": http.StatusInternalServerError, "configmaps": http.StatusNotFound,
	}}, 100)
	for kind, want := range map[doctor.Kind]string{doctor.Networks: "no permission",
		doctor.Policies: "does not have", doctor.Nodes: "list nodes: "} {
		if !strings.Contains(s.Unread[kind], want) {
			t.Errorf("%s: %q, want %q", kind, s.Unread[kind], want)
		}
		delete(s.Unread, kind)
	}
	if len(s.Unread) > 0 || len(s.Pods) != 1 {
		t.Errorf("%v, %d pods", s.Unread, len(s.Pods))
	}
}

// TestSnapshot_UnreadConfigMaps: a Role may permit some ConfigMaps. The others are named one by one, and
// so are those above the limit.
func TestSnapshot_UnreadConfigMaps(t *testing.T) {
	s := snapshot(t, &api{pods: maxConfigMaps, status: map[string]int{
		"c0": http.StatusForbidden, "c1": http.StatusNotFound, "c2": http.StatusInternalServerError,
	}}, 100)
	want := map[string]string{
		"kube-system/c0": "no permission to get ConfigMap kube-system/c0: docs/debugging.md has a ClusterRole",
		"kube-system/c2": "get ConfigMap kube-system/c2: ",
		"kube-system/c9": "ConfigMap kube-system/c9: not read: the limit is 10 ConfigMaps",
	}
	for name, why := range s.UnreadConfigMaps {
		if text, ok := want[name.String()]; !ok || !strings.HasPrefix(why, text) {
			t.Errorf("%s: %q, want %q", name, why, text)
		}
	}
	if len(s.UnreadConfigMaps) != len(want) || len(s.Unread) > 0 || len(s.ConfigMaps) != maxConfigMaps-3 {
		t.Errorf("%v, unread: %v, %d ConfigMaps", s.UnreadConfigMaps, s.Unread, len(s.ConfigMaps))
	}
}

// TestSnapshot_Unreachable: without any answer there is nothing to check.
func TestSnapshot_Unreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL}, MaxObjects: 1})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
}
