// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestGuard_Interval: without an event the addresses are checked every minute, and every five
// seconds while there is a problem. After a restoration they are checked at once.
func TestGuard_Interval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(nil, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = g.checkPeriodically(ctx) }()
		expect := func(after time.Duration, want bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.checked != want {
				t.Errorf("%v later: checked is %t, want %t", after, g.checked, want)
			}
			g.checked = false
		}
		for range 2 {
			expect(guardInterval-time.Nanosecond, false)
			expect(time.Nanosecond, true)
		}
		g.mu.Lock()
		g.missing = problems{netip.MustParseAddrPort("169.254.20.10:53"): errors.New("no such device")}
		g.mu.Unlock()
		notify(g.probeNow)
		expect(0, true)
		expect(guardRetry-time.Nanosecond, false)
		expect(time.Nanosecond, true)
	})
}
