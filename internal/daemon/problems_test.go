// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHTTP_State: version, readiness with details, and the problems, which may have any characters. Clients
// of other machines, such as pods, get the number of problems only.
func TestHTTP_State(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := HTTP{
			Metrics: NewRegistry("v1.2.3"), Log: slog.New(recordProblems(slog.DiscardHandler)),
			Ready: func() ([]string, error) { return []string{"namespaces: not synced"}, errors.New("no snapshot") },
		}
		started := time.Now()
		state := func(local bool) string {
			var b strings.Builder
			h.writeState(&b, started, local)
			return b.String()
		}
		head := "dnsconfigurer v1.2.3, started 2000-01-01T00:00:00Z\n"
		want := head + "not ready: no snapshot\nnamespaces: not synced\n0 different warnings and errors\n"
		if got := state(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		h.Ready = func() ([]string, error) { return nil, nil }
		h.Log.Error("lookup failed", "pod", "bank/vault-0")
		h.Log.Warn("refused", "name", "\x1b[2J\n<b>")
		h.Log.Warn("refused", "name", "\x1b[2J\n<b>")
		want = head + "ready\n2 different warnings and errors\n2000-01-01T00:00:00Z WARN (2 times) refused name=\uFFFD[2J <b>\n" +
			"2000-01-01T00:00:00Z ERROR (1 times) lookup failed pod=bank/vault-0\n"
		if got := state(true); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		want = head + "ready\n2 different warnings and errors, shown to clients on this machine and of kubectl port-forward\n"
		if got := state(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestProblems_Bounded: a repeated problem is counted, and the oldest ones are dropped.
func TestProblems_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(recordProblems(slog.DiscardHandler))
		log.Info("not a problem")
		log.Error("first")
		for i := range 100 {
			log.With("node", "a").WithGroup("pod").Warn("refused", "number", i, "text", strings.Repeat("x", 1<<16))
			time.Sleep(time.Second)
		}
		log.Warn("twice")
		log.Info("between")
		log.Warn("twice")
		list := problemsOf(log).list()
		if len(list) != 32 {
			t.Fatalf("%d problems, want 32", len(list))
		}
		if last := list[0]; last.Text != "twice" || last.Count != 2 || last.Level != slog.LevelWarn || !last.Time.Equal(time.Now()) {
			t.Errorf("last problem %+v", last)
		}
		if !strings.HasPrefix(list[1].Text, "refused node=a pod.number=99 pod.text=xxx") || len(list[1].Text) > 512 {
			t.Errorf("problem before has %d bytes: %q", len(list[1].Text), list[1].Text)
		}
	})
}

// TestRecordProblems_Passes: the log is as it would be without the recording.
func TestRecordProblems_Passes(t *testing.T) {
	var got, want strings.Builder
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	for _, log := range []*slog.Logger{
		slog.New(recordProblems(slog.NewTextHandler(&got, options))), slog.New(slog.NewTextHandler(&want, options)),
	} {
		log.With("a", 1).WithGroup("g").With("b", 2).Error("failed", "error", fmt.Errorf("x"))
		log.Debug("hidden")
	}
	if got.String() != want.String() || want.Len() == 0 {
		t.Errorf("log is %q, want %q", got.String(), want.String())
	}
}
