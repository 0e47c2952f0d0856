// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// largeList serves a list of 100 objects with annotations of 4 KiB and labels of another 4 KiB,
// page by page.
func largeList(w http.ResponseWriter, r *http.Request, largest *atomic.Int64) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	last := min(first+limit, 100)
	var items []string
	for i := range last - first {
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"o%d","annotations":{"a":%q},"labels":{"l":%q}}}`,
			first+i, strings.Repeat("a", 4<<10), strings.Repeat("l", 4<<10)))
	}
	next := ""
	if last < 100 {
		next = strconv.Itoa(last)
	}
	largest.Store(max(largest.Load(), int64(len(items))))
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

// TestSnapshot_Sizes: a page that is too large is read in parts, and what is kept of a kind has a
// limit. Annotations, which no check needs, do not count.
func TestSnapshot_Sizes(t *testing.T) {
	var largest atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "networkpolicies" {
			largeList(w, r, &largest)
			return
		}
		(&api{t: t}).ServeHTTP(w, r)
	}))
	defer server.Close()
	const object = 4<<10 + 100 // what is kept of an object, at most
	for name, tt := range map[string]struct {
		limits
		all bool
	}{
		"all":         {limits{page: 4 << 20, kind: 100 * object}, true},
		"small pages": {limits{page: 80 << 10, kind: 100 * object}, true},
		"half":        {limits{page: 4 << 20, kind: 50 * object}, false},
		"none fits":   {limits{page: 5 << 10, kind: 100 * object}, false},
	} {
		largest.Store(0)
		s, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 1000, limits: tt.limits})
		if err != nil {
			t.Fatal(err)
		}
		why, kept := s.Unread[doctor.Networks], 0
		for i := range s.Networks {
			kept += s.Networks[i].Size()
		}
		if (len(s.Networks) == 100) != tt.all || (why == "") != tt.all || kept > tt.kind || len(s.Unread) > 1 {
			t.Errorf("%s: %d objects with %d bytes, pages of up to %d, unread: %v", name, len(s.Networks), kept, largest.Load(), s.Unread)
		}
		want := map[string]string{"half": fmt.Sprintf("the networkpolicies have more than %d bytes: %d of them were read", tt.kind,
			len(s.Networks)), "none fits": "the reply is too large"}[name]
		if !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
		if len(s.Networks) > 0 && len(s.Networks[0].Annotations) > 0 {
			t.Errorf("%s: the annotations are kept", name)
		}
	}
}

// TestTrim keeps what the decision about a pod needs.
func TestTrim(t *testing.T) {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{policy.OverrideAnnotation: "None", "large": "a"}
	p.Spec.Containers = []corev1.Container{{Name: "a", Args: []string{"b"}, Ports: []corev1.ContainerPort{{Name: "dns"}}}}
	trim(p)
	c := p.Spec.Containers[0]
	if len(p.Annotations) != 1 || p.Annotations[policy.OverrideAnnotation] != "None" || len(c.Args) > 0 || len(c.Ports) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestAll_Closed: the API server closes the connection in the middle of a list, even of the first
// one. The other kinds are read.
func TestAll_Closed(t *testing.T) {
	for _, kind := range []doctor.Kind{doctor.Services, doctor.Pods, doctor.Networks, doctor.Mutating} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path.Base(r.URL.Path) == string(kind) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				w.Header().Set("Content-Length", "1000")
				fmt.Fprint(w, `{"metadata":{},"items":[`)
				return // before the end, which closes the connection
			}
			(&api{t: t, pods: 1}).ServeHTTP(w, r)
		}))
		s, err := Snapshot(t.Context(), Config{API: &rest.Config{Host: server.URL, QPS: -1}, MaxObjects: 100})
		server.Close()
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if len(s.Unread) != 1 || !strings.Contains(s.Unread[kind], "unexpected EOF") ||
			(len(s.Pods) == 1) == (kind == doctor.Pods) || (len(s.Services) == 1) == (kind == doctor.Services) {
			t.Errorf("%s: %d pods, %d Services, unread: %v", kind, len(s.Pods), len(s.Services), s.Unread)
		}
		if r := doctor.Run(t.Context(), s); len(r.NotChecked) == 0 || r.Passed+len(r.Findings) == 0 {
			t.Errorf("%s: %+v", kind, r)
		}
	}
}
