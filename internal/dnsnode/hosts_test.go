// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

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

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// TestHosts_Watch: a changed file is applied, also one that appears later. A file that cannot be read keeps its names.
func TestHosts_Watch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := hosts{file: path, ttl: 60}
		text, err := readFile(h.file)
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		applied := 0
		go func() {
			_ = watchFile(ctx, h.file, text, func(string) { applied++ }, slog.New(slog.DiscardHandler))
		}()
		for i, step := range []struct {
			change func() error
			want   int
		}{
			{func() error { return os.WriteFile(path, []byte("192.0.2.7 a.example"), 0o600) }, 1},
			{func() error { return nil }, 1},
			{func() error { return os.WriteFile(path, []byte("192.0.2.8 a.example"), 0o600) }, 2},
			{func() error { return os.Remove(path) }, 2},
		} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(fileInterval + time.Millisecond)
			synctest.Wait()
			if applied != step.want {
				t.Errorf("step %d: applied %d times, want %d", i, applied, step.want)
			}
		}
		cancel()
	})
}

// TestHosts_Parse: invalid lines of the file are logged within bounds, and the others count.
func TestHosts_Parse(t *testing.T) {
	var log strings.Builder
	h := hosts{entries: []string{"192.0.2.7 a.example"}, file: "f"}
	h.parse(strings.Repeat("x y\n", 1000), nil, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); !strings.Contains(got, "line 1: ") || len(got) > 2*maxHostsError || strings.Count(got, "\n") != 1 {
		t.Errorf("%d octets: %.200s", len(got), got)
	}
}

// TestHosts_Reload: a reload of another field, while the file cannot be read, keeps the names of the file. Another file
// that cannot be read has none.
func TestHosts_Reload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("192.0.2.7 a.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := newTestServer(t, dnsserver.Limits{})
	for i, step := range []struct {
		change func() error
		c      forwarding
		want   string
	}{
		{func() error { return nil }, forwarding{Hosts: hosts{file: path, ttl: 60}}, "192.0.2.7 a.example"},
		{func() error { return os.Remove(path) }, forwarding{Hosts: hosts{file: path, ttl: 30}}, "192.0.2.7 a.example"},
		{func() error { return nil }, forwarding{Hosts: hosts{file: path, ttl: 30}, Policy: upstream.Random}, "192.0.2.7 a.example"},
		{func() error { return nil }, forwarding{Hosts: hosts{file: path + ".other"}}, ""},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		server.apply(step.c)
		if server.hostsText != step.want {
			t.Errorf("step %d: got %q, want %q", i, server.hostsText, step.want)
		}
	}
}
