// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// startQueryLog runs a writer of a query log to standard output until the test ends, in a bubble of synctest.
func startQueryLog(t *testing.T, stdout io.Writer, log io.Writer) (w *queryLogWriter, stop func()) {
	w = newQueryLogWriter(stdout, false, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.run(ctx) }()
	return w, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestQueryLog_Slow: lines are written together, and while the output hangs, they wait in bounded memory and are then
// counted as dropped. Neither those who log nor the end of the process wait for it.
func TestQueryLog_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logbuffer.Buffer
		var hangs atomic.Bool
		blocked := make(chan struct{})
		w, stop := startQueryLog(t, writerFunc(func(b []byte) (int, error) {
			if hangs.Load() {
				<-blocked
			}
			return out.Write(b)
		}), io.Discard)
		w.add([]byte("one\n"))
		w.add([]byte("two\nthree\n"))
		time.Sleep(queryLogDelay - time.Nanosecond)
		synctest.Wait()
		if got := out.String(); got != "" {
			t.Errorf("written too early: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := out.String(); got != "one\ntwo\nthree\n" {
			t.Errorf("got %q", got)
		}
		hangs.Store(true)
		waiting := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.lines)
		}
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 3 * maxQueryLines / len(line) { // in no time
			w.add(line)
			if waiting() == len(line) {
				synctest.Wait() // the writer takes the first half
			}
		}
		if got := testutil.ToFloat64(w.dropped); got < maxQueryLines/float64(len(line)) || waiting() > maxQueryLines {
			t.Errorf("%v lines are dropped, %d bytes wait", got, waiting())
		}
		start := time.Now()
		stop()
		if took := time.Since(start); took > queryLogTimeout {
			t.Errorf("the end took %v", took)
		}
		close(blocked)
		synctest.Wait()
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestQueryLog_Failing: an output that accepts a part of the lines, and then none, loses the rest, which is counted and
// logged once a minute. When it works again, the next line begins on a line of its own.
func TestQueryLog_Failing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log, out strings.Builder
		room := 9
		full := writerFunc(func(b []byte) (int, error) {
			n, _ := out.Write(b[:min(len(b), room)])
			if room -= n; n < len(b) {
				return n, syscall.ENOSPC
			}
			return n, nil
		})
		w, stop := startQueryLog(t, full, &log)
		for _, lines := range []string{"one\ntwo\nthree\nfour\n", "five\n", "six\n"} {
			w.add([]byte(lines))
			time.Sleep(2 * queryLogDelay)
		}
		synctest.Wait()
		room = 100
		w.add([]byte("seven\n"))
		w.add([]byte("eight\n"))
		stop() // writes what waits
		if got, want := out.String(), "one\ntwo\nt\nseven\neight\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := testutil.ToFloat64(w.dropped); got != 4 {
			t.Errorf("%v lines are dropped, want 4", got)
		}
		if n := strings.Count(log.String(), "cannot write the query log"); n != 1 || !strings.Contains(log.String(), "no space left") {
			t.Errorf("%d messages: %s", n, log.String())
		}
	})
}
