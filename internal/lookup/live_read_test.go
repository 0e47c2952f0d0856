// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// pagedAPI serves a number of namespaces, each with an annotation of some bytes, in pages of the
// size that is requested, and no other objects.
func pagedAPI(t *testing.T, namespaces, bytes int) *rest.Config {
	t.Helper()
	annotation := strings.Repeat("x", bytes)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces" {
			fmt.Fprint(w, `{"apiVersion": "v1", "kind": "List", "items": []}`)
			return
		}
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		next := ""
		if first+limit < namespaces {
			next = strconv.Itoa(first + limit)
		}
		fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"continue": %q}, "items": [`, next)
		for i := first; i < min(first+limit, namespaces); i++ {
			if i > first {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `{"metadata": {"name": "team-%d", "annotations": {"a": %q}}}`, i, annotation)
		}
		fmt.Fprint(w, "]}")
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// TestRead_Pages: all pages are read, and pages that are too large are requested with fewer objects.
func TestRead_Pages(t *testing.T) {
	for _, tt := range []struct{ namespaces, bytes int }{
		{pageSize + 1, 1},
		{40, 1000}, // 40 of them exceed the size of a reply
	} {
		c, err := read(t.Context(), pagedAPI(t, tt.namespaces, tt.bytes), "shop", limits{1000, 40_000, 100_000})
		if err != nil || len(c.Manifest.Others) != tt.namespaces {
			t.Errorf("%d namespaces of %d bytes: %d read, %v", tt.namespaces, tt.bytes, len(c.Manifest.Others), err)
		}
	}
}

// pages replies to a number of requests with a page that others follow, and then with the last one.
type pages int

func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	next := ""
	if *p--; *p > 0 {
		next = "more"
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "List", "metadata": {"continue": %q}, "items": []}`, next)
	response := w.Result()
	response.Request = r
	return response, nil
}

// TestRead_Rate: client-go's limit of five requests a second does not apply. With it, the pages of
// 50,000 objects of each kind take longer than the default of --timeout.
func TestRead_Rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, left := time.Now(), pages(40)
		if _, err := Read(t.Context(), &rest.Config{Host: "http://api", Transport: &left}, "shop"); err != nil || left > 0 {
			t.Errorf("%d pages are left, %v", left, err)
		}
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the requests waited %v", waited)
		}
	})
}

// TestRead_InvalidReplies: the errors about what is not a list of objects name it.
func TestRead_InvalidReplies(t *testing.T) {
	for reply, want := range map[string]string{
		`[]`:              "list namespaces: invalid reply of the API server: is a list, must be a mapping",
		`{"items": true}`: "list namespaces: invalid reply of the API server: items: is a boolean, must be a list",
		`{}`:              "namespaces of the cluster:1:1: not a Kubernetes object: apiVersion and kind are missing",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, reply)
		}))
		t.Cleanup(server.Close)
		if _, err := Read(t.Context(), &rest.Config{Host: server.URL}, "shop"); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", reply, err, want)
		}
	}
}

// TestRead_Limits: a cluster that is too large is an error instead of a wrong answer.
func TestRead_Limits(t *testing.T) {
	for _, tt := range []struct {
		namespaces, bytes int
		want              string // "": no error
	}{
		{10, 1, ""},
		{11, 1, "list namespaces: more than 10 objects or 20000 bytes"},
		{9, 2000, ""},
		{10, 2000, "list namespaces: more than 10 objects or 20000 bytes"},
		{1, 4000, "list namespaces: an object has more than 4000 bytes"},
	} {
		_, err := read(t.Context(), pagedAPI(t, tt.namespaces, tt.bytes), "shop", limits{10, 4000, 20_000})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d namespaces of %d bytes: %v, want %q", tt.namespaces, tt.bytes, err, tt.want)
		}
	}
}
