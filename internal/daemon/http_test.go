// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// TestHTTP_KeepServing: a server goes on if its port for metrics is in use, which the log has once. The end of the
// context does not open the socket once more.
func TestHTTP_KeepServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, opened := time.Now(), 0
		listen := func(context.Context, string) (net.Listener, error) {
			if opened++; opened == 3 {
				stop()
			}
			return nil, errors.New("in use")
		}
		var log bytes.Buffer
		p := daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := daemon.HTTP{Process: p}.KeepServing(":0", listen)(ctx)
		if took := time.Since(began); err != nil || opened != 3 || took != 20*time.Second {
			t.Errorf("opened %d times in %v, want 3 in 20s; %v", opened, took, err)
		}
		if n := strings.Count(log.String(), "retrying"); n != 1 {
			t.Errorf("%d lines, want 1:\n%s", n, &log)
		}
		p.Metrics = prometheus.NewRegistry()
		if err := (daemon.HTTP{Process: p}).KeepServing(":0", listen)(ctx); err != nil || opened != 3 {
			t.Errorf("opened %d times after the end, want 3; %v", opened, err)
		}
	})
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
