// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Limits of the lines that wait to be written. A thousand pods that start at once log a line
// of 300 bytes each.
const (
	maxLogLines = 1024
	maxLogBytes = 1 << 20
)

const (
	dropInterval = time.Minute // between two lines about dropped lines
	flushTimeout = time.Second // for the lines that wait when the writer is stopped
)

// A logWriter writes a log without blocking the callers: journald, or another reader of the
// log, may hang. Lines wait in a bounded queue; a line that does not fit is dropped and
// counted, and reported in the log at most once a minute.
type logWriter struct {
	w       io.Writer
	drops   *slog.Logger // logs that lines were dropped; writes to w
	dropped prometheus.Counter

	lines      chan []byte
	size       atomic.Int64  // bytes in lines; when the writer is stopped, more than fit
	unreported atomic.Uint64 // lines dropped since drops logged that
}

// newLogWriter returns a logWriter that writes to w, with metrics registered with r. drops logs to w that lines
// were dropped. Lines are written after start.
func newLogWriter(w io.Writer, drops slog.Handler, r prometheus.Registerer) *logWriter {
	return &logWriter{
		w: w, drops: slog.New(drops), lines: make(chan []byte, maxLogLines),
		dropped: promauto.With(r).NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_log_lines_dropped_total",
			Help: "Log lines dropped because the log is not read.",
		}),
	}
}

// Write queues a line. It never blocks and never fails.
func (l *logWriter) Write(line []byte) (int, error) {
	if l.size.Add(int64(len(line))) <= maxLogBytes {
		select {
		case l.lines <- bytes.Clone(line):
			return len(line), nil
		default:
		}
	}
	l.size.Add(-int64(len(line)))
	l.unreported.Add(1)
	l.dropped.Inc()
	return len(line), nil
}

// start writes the lines in a goroutine. stop ends it when all lines are written, or after a
// second; then the process may exit.
func (l *logWriter) start() (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(stopped)
	}()
	return func() {
		l.size.Add(maxLogBytes) // no other line fits
		close(stopped)
		select {
		case <-done:
		case <-time.After(flushTimeout):
		}
	}
}

// run writes lines until it is stopped and no line waits.
func (l *logWriter) run(stopped <-chan struct{}) {
	var reported time.Time
	for {
		ended := false
		select {
		case line := <-l.lines:
			l.size.Add(-int64(len(line)))
			_, _ = l.w.Write(line) // there is no other log
		case <-stopped:
			ended = len(l.lines) == 0
		}
		if ended || time.Since(reported) >= dropInterval {
			if n := l.unreported.Swap(0); n > 0 {
				l.drops.Warn("log lines dropped, the log is not read", "count", n)
				reported = time.Now()
			}
		}
		if ended {
			return
		}
	}
}
