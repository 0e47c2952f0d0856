// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// TestReloader_RetriesApply: a valid configuration that cannot be applied is applied again
// until it succeeds, without another change of the file. The error is logged once.
func TestReloader_RetriesApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		var log logbuffer.Buffer
		failures, applied := 0, 0
		r := daemon.Reloader[int]{
			Source: source, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Apply: func(int) (daemon.Task, error) {
				applied++
				if failures > 0 {
					failures--
					return nil, errors.New("too many watches")
				}
				return nil, nil
			},
		}
		if err := r.Start(0, prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		failures = 3
		source.changed.Store(true)
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if applied != 5 || strings.Count(log.String(), "too many watches") != 1 {
			t.Errorf("applied %d times, want 5: at the start, and 4 times after the change; the log:\n%s", applied, log.String())
		}
	})
}

// fakeSource is a source of valid configurations.
type fakeSource struct{ changed atomic.Bool }

func (s *fakeSource) Load() (int, error)            { return 1, nil }
func (s *fakeSource) Changed() bool                 { return s.changed.Swap(false) }
func (s *fakeSource) NeedRestart(_, _ int) []string { return nil }
