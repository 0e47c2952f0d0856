// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

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
		api := &eventAPI{}
		w := hostresolv.New(hostresolv.Config{Path: path})
		reporter := newReporter(t, api, io.Discard)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- daemon.RunAll(ctx, reporter.Run, FollowHost(w, reporter, func() {})) }()
		expect := func(after time.Duration, wants ...string) { // of one request, or none
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			api.mu.Lock()
			defer api.mu.Unlock()
			sent := strings.Join(append(api.requests, api.bodies...), "\n")
			isMissing := func(s string) bool { return !strings.Contains(sent, s) }
			if len(api.requests) != min(len(wants), 1) || slices.ContainsFunc(wants, isMissing) {
				t.Errorf("sent %q, want %q", sent, wants)
			}
			api.requests, api.bodies = nil, nil
		}
		missing := "the host's resolv.conf is unusable: open " + path + ": no such file or directory"
		expect(time.Minute, "POST ", "worker", "Warning", "HostResolvConfUnusable", missing)
		expect(29*time.Minute+time.Second, "PATCH ", `"count":2`, missing)
		expect(30*time.Minute, "PATCH ", `"count":3`, missing)
		write("nameserver 192.0.2.53\n")
		w.Reread()
		expect(time.Minute, "POST ", "worker", "Normal", "HostResolvConfUsable", "the host's resolv.conf is usable again")
		expect(24 * time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
