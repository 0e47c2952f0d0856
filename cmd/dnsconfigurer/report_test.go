// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// TestEvents has the API server see an event, and its repetition as a change of it.
func TestEvents(t *testing.T) {
	type request struct{ line, body string }
	requests := make(chan request, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method + " " + r.URL.Path, string(body)}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"Event","apiVersion":"v1","metadata":{"namespace":"shop","name":"web.1","resourceVersion":"7"},"count":1}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], contexts: [{name: c, context: {cluster: c}}]}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api, err := newClient(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r := newReporter(api, "worker", slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.run(ctx) }()

	report := cri.Report{Sandbox: cri.Sandbox{Namespace: "shop", Name: "web", UID: "u1"}, Outcome: cri.Edited, DNS: resolvconf.Config{Nameservers: []string{"10.96.0.10"}}}
	for _, want := range []string{"POST /api/v1/namespaces/shop/events", "PATCH /api/v1/namespaces/shop/events/web."} {
		var got request
		for tries := 0; got.line == ""; tries++ { // what is reported before run listens is dropped
			if tries == 100 {
				t.Fatalf("no %s", want)
			}
			r.report(report)
			select {
			case got = <-requests:
			case <-time.After(100 * time.Millisecond):
			}
		}
		if !strings.HasPrefix(got.line, want) {
			t.Errorf("got %s, want %s", got.line, want)
		}
		if strings.HasPrefix(want, "POST") && (!strings.Contains(got.body, eventConfigured) || !strings.Contains(got.body, "nameserver 10.96.0.10")) {
			t.Errorf("the event is %q", got.body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
