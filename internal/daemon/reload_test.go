// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// TestReloader_RetriesApply: a valid configuration that cannot be applied is applied again
// until it succeeds, without another change of the file. The error is logged once.
func TestReloader_RetriesApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "dns.yaml")
		write := func(fields string) {
			if err := os.WriteFile(path,
				[]byte("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"+fields), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("upstreams: [192.0.2.1]\n")
		source := config.DNSKind().FromFile(path)
		c, err := source.Load()
		if err != nil {
			t.Fatal(err)
		}
		var log logbuffer.Buffer
		failures, applied := 0, 0
		r := daemon.Reloader[config.DNS]{
			Source: source, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Apply: func(config.DNS) (daemon.Task, error) {
				applied++
				if failures > 0 {
					failures--
					return nil, errors.New("too many watches")
				}
				return nil, nil
			},
		}
		if err := r.Start(c, prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		failures = 3
		write("upstreams: [192.0.2.2]\n")
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
