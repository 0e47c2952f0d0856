// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// eventLog is an API server without a socket that records the requests about events.
type eventLog struct {
	mu       sync.Mutex
	requests []string
}

// take returns the requests since the last call.
func (l *eventLog) take() (requests []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests, l.requests = l.requests, nil
	return requests
}

func (l *eventLog) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var e corev1.Event
	if r.Method == http.MethodPatch {
		err = json.Unmarshal(body, &e)
	} else {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &e)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s count %d: %s",
		r.Method, e.InvolvedObject.Name, e.Type, e.Reason, e.Count, e.Message)), " "))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// TestFollowHost: an unusable file of the host has an event on the node, which is updated every
// half hour while that lasts, and another one when it is usable again.
func TestFollowHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var sent eventLog
		config := &rest.Config{Host: "http://api.invalid", QPS: -1, Transport: &sent}
		api, err := cluster.NewClient(config, corev1.SchemeGroupVersion, &corev1.Event{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewHostWatcher(hostresolv.Config{Path: path}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		reporter := NewReporter(api, "worker", NewDrops(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- daemon.RunAll(ctx, reporter.Run, FollowHost(w, reporter, func() {})) }()
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := sent.take(); !slices.Equal(got, want) {
				t.Errorf("events %q, want %q", got, want)
			}
		}
		missing := "the host's resolv.conf is unusable: open " + path + ": no such file or directory"
		expect(time.Minute, "POST worker Warning HostResolvConfUnusable count 1: "+missing)
		expect(29*time.Minute+time.Second, "PATCH count 2: "+missing)
		expect(30*time.Minute, "PATCH count 3: "+missing)
		write("nameserver 192.0.2.53\n")
		w.Reread()
		expect(time.Minute, "POST worker Normal HostResolvConfUsable count 1: the host's resolv.conf is usable again")
		expect(24 * time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
