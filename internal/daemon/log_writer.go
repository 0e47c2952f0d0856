// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// A LogWriter writes a log without blocking the callers: journald, or another reader of the
// log, may hang. Lines wait in a bounded queue; a line that does not fit is dropped and
// counted, and reported in the log at most once a minute.
type LogWriter struct {
	w       io.Writer
	format  string
	drops   *slog.Logger // logs that lines were dropped; writes to w
	wake    chan struct{}
	dropped prometheus.Counter

	mu         sync.Mutex
	lines      [][]byte
	size       int    // bytes in lines
	unreported uint64 // lines dropped since drops logged that
	closed     bool
}

// NewLogWriter returns a LogWriter for a log in format text or json. Lines are written after
// Start.
func NewLogWriter(w io.Writer, format string) (*LogWriter, error) {
	h, err := newHandler(w, format)
	if err != nil {
		return nil, err
	}
	return &LogWriter{
		w: w, format: format, drops: slog.New(h), wake: make(chan struct{}, 1),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_log_lines_dropped_total",
			Help: "Log lines dropped because the log is not read.",
		}),
	}, nil
}

// Logger returns a logger that writes to l.
func (l *LogWriter) Logger() *slog.Logger {
	h, _ := newHandler(l, l.format) // NewLogWriter has checked the format
	return slog.New(h)
}

// Register registers the metrics with r.
func (l *LogWriter) Register(r prometheus.Registerer) { r.MustRegister(l.dropped) }

// Write queues a line. It never blocks and never fails.
func (l *LogWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.lines) == maxLogLines || l.size+len(line) > maxLogBytes {
		l.unreported++
		l.dropped.Inc()
		return len(line), nil
	}
	l.lines = append(l.lines, append([]byte(nil), line...))
	l.size += len(line)
	Notify(l.wake)
	return len(line), nil
}

// Start writes the lines in a goroutine. stop ends it when all lines are written, or after a
// second; then the process may exit.
func (l *LogWriter) Start() (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run()
	}()
	return func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		Notify(l.wake)
		select {
		case <-done:
		case <-time.After(flushTimeout):
		}
	}
}

// run writes until the LogWriter is closed and no line waits.
func (l *LogWriter) run() {
	var reported time.Time // when drops logged that
	for {
		line, closed := l.next()
		if line != nil {
			_, _ = l.w.Write(line) // there is no other log
		}
		if (closed && line == nil) || time.Since(reported) >= dropInterval {
			if n := l.resetUnreported(); n > 0 {
				l.drops.Warn("log lines dropped, the log is not read", "count", n)
				reported = time.Now()
			}
		}
		switch {
		case line != nil:
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// next removes the first line. It returns nil if there is none.
func (l *LogWriter) next() (line []byte, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return nil, l.closed
	}
	line, l.lines[0] = l.lines[0], nil
	l.lines = l.lines[1:]
	l.size -= len(line)
	return line, l.closed
}

// resetUnreported returns the number of dropped lines that were not reported, and counts from 0 again.
func (l *LogWriter) resetUnreported() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.unreported
	l.unreported = 0
	return n
}
