// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// TestHTTP_PortInUse: a server goes on if its port for metrics is in use.
func TestHTTP_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log logbuffer.Buffer
	ended := make(chan error)
	go func() {
		h := daemon.HTTP{Process: daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil))}}
		ended <- h.KeepServing(l.Addr().String(), daemon.ListenHTTP)(ctx)
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "retrying"); {
		select {
		case err := <-ended:
			t.Fatalf("ended with %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log says: %s", log.String())
		}
		runtime.Gosched()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestHTTP_KeepServingEnds: the end of the context does not open the socket once more.
func TestHTTP_KeepServingEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	opened := 0
	listen := func(context.Context, string) (net.Listener, error) {
		opened++
		stop()
		return nil, errors.New("in use")
	}
	h := daemon.HTTP{Process: daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}}
	if err := h.KeepServing(":0", listen)(ctx); err != nil || opened != 1 {
		t.Errorf("opened %d times, want 1; %v", opened, err)
	}
	h.Metrics = prometheus.NewRegistry()
	if err := h.KeepServing(":0", listen)(ctx); err != nil || opened != 1 {
		t.Errorf("opened %d times after the end, want 1; %v", opened, err)
	}
}

func TestHTTP_Ready(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan error, 1)
	h := daemon.HTTP{
		Process: daemon.Process{Metrics: prometheus.NewRegistry()},
		Ready:   func() ([]string, error) { return []string{"detail"}, <-ready },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Serve(ctx, l) }()
	for _, tt := range []struct {
		path string
		err  error
		want string
	}{
		{"/readyz", nil, "200 ok\n"},
		{"/readyz?verbose", nil, "200 ok\ndetail\n"},
		{"/readyz", errors.New("not loaded"), "503 not loaded\ndetail\n"},
	} {
		ready <- tt.err
		r, err := http.Get("http://" + l.Addr().String() + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if got := fmt.Sprintf("%d %s", r.StatusCode, body); err != nil || got != tt.want {
			t.Errorf("%s: %q, want %q; %v", tt.path, got, tt.want, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
