// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// stopping is what an agent replies at a time after the start of a wait; nil: no agent is connected.
type stopping func(after time.Duration) *podfile.Ack

// awaitStops returns how long the plugin of a relay waits, what it reports after two seconds, and its
// log.
func awaitStops(t *testing.T, reply stopping) (waited time.Duration, reason, log string) {
	t.Helper()
	var text bytes.Buffer
	p := &plugin{link: &podfile.Link{}, log: slog.New(slog.NewTextHandler(&text, nil))}
	p.metrics = newMetrics(prometheus.NewRegistry(), p.waitsFor)
	s := Server{plugin: p}
	began := time.Now()
	ask := func(context.Context, podfile.Event) (podfile.Ack, podfile.Result) {
		if ack := reply(time.Since(began)); ack != nil {
			return *ack, podfile.Acknowledged
		}
		return podfile.Ack{}, podfile.Disconnected
	}
	reported := make(chan string, 1)
	go func() {
		time.Sleep(2 * time.Second)
		reason := s.ready().Error()
		if waits := testutil.ToFloat64(p.metrics.waiting) == 1; waits != strings.Contains(reason, "waiting to register") {
			t.Errorf("%q, and the metric says %t", reason, waits)
		}
		reported <- reason
	}()
	p.awaitStops(t.Context(), ask)
	waited = time.Since(began)
	if p.waitsFor() != "" || testutil.ToFloat64(p.metrics.waiting) != 0 {
		t.Errorf("after the wait: %q", p.waitsFor())
	}
	return waited, <-reported, text.String()
}

// TestAwaitStops: the relay waits for the end of stops, and for an agent that knows them, but not for
// ever.
func TestAwaitStops(t *testing.T) {
	none, stops, unknown := &podfile.Ack{}, &podfile.Ack{Stopping: 2}, &podfile.Ack{Unknown: true}
	until := func(end time.Duration, first, then *podfile.Ack) stopping {
		return func(after time.Duration) *podfile.Ack {
			if after < end {
				return first
			}
			return then
		}
	}
	const ever = time.Hour
	for _, c := range []struct {
		name   string
		reply  stopping
		waits  time.Duration // give or take a second
		reason string
		forced bool // the log says that it registers nevertheless
	}{
		{"no stop", until(ever, none, nil), 0, "", false},
		{"a grace period of ten minutes", until(605*time.Second, stops, none), 605 * time.Second,
			"pods that are being stopped on this node: 2", false},
		{"one stop after another", until(ever, stops, nil), stopLimit, "are being stopped", true},
		{"an agent that starts", until(5*time.Second, nil, none), 5 * time.Second, "the agent is not connected", false},
		{"no agent", until(ever, nil, nil), silenceLimit, "the agent is not connected", true},
		{"an agent without the API server", until(ever, unknown, nil), silenceLimit, "does not know the pods", true},
		{"an agent that ends during a stop", until(5*time.Minute, stops, nil), 5*time.Minute + silenceLimit, "are being stopped", true},
		{"an agent that restarts during a stop", func(after time.Duration) *podfile.Ack {
			if minute := after % time.Minute; minute > 40*time.Second {
				return until(8*time.Minute, nil, none)(after)
			}
			return until(8*time.Minute, stops, none)(after)
		}, 8 * time.Minute, "are being stopped", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waited, reason, log := awaitStops(t, c.reply)
				if waited < c.waits-time.Second || waited > c.waits+time.Second {
					t.Errorf("waited %v, want %v", waited, c.waits)
				}
				if !strings.Contains(reason, c.reason) || strings.Contains(reason, "waiting") != (c.reason != "") {
					t.Errorf("not ready: %q, want %q", reason, c.reason)
				}
				if forced := strings.Contains(log, "registering although"); forced != c.forced || !strings.Contains(log, c.reason) {
					t.Errorf("forced: %t, want %t, log:\n%s", forced, c.forced, log)
				}
			})
		})
	}
}

// TestAwaitStops_StartedByRuntime: a runtime that starts the relay waits for it, so the relay does not
// wait for the agent.
func TestAwaitStops_StartedByRuntime(t *testing.T) {
	t.Setenv(api.PluginIdxEnvVar, "90")
	synctest.Test(t, func(t *testing.T) {
		if waited, _, _ := awaitStops(t, func(time.Duration) *podfile.Ack { return nil }); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}
