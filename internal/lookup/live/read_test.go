// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

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
	return &rest.Config{Host: server.URL, QPS: -1}
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
		{1, 4000, "the reply is too large"},
	} {
		_, err := read(t.Context(), pagedAPI(t, tt.namespaces, tt.bytes), "shop", limits{10, 4000, 20_000})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d namespaces of %d bytes: %v, want %q", tt.namespaces, tt.bytes, err, tt.want)
		}
	}
}
