// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
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

const (
	maxProblems    = 32  // different ones
	maxProblemText = 512 // bytes of a line
)

// problem is a line of the log of level warning or error.
type problem struct {
	last  time.Time // occurrence
	text  string    // without the time
	count int       // occurrences in a row of problems with this text
}

// problems are the last lines of a log of level warning and error. The zero value has none.
type problems struct {
	mu   sync.Mutex
	list []problem // oldest first
}

// handler returns a handler that keeps the problems of a log.
func (p *problems) handler() slog.Handler {
	return slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// Write adds a line. One that is in the list already is counted and becomes the last.
func (p *problems) Write(line []byte) (int, error) {
	added := problem{time.Now(), excerpt.Text(strings.TrimSuffix(string(line), "\n"), maxProblemText), 1}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.list, func(q problem) bool { return q.text == added.text }); i >= 0 {
		added.count += p.list[i].count
		p.list = slices.Delete(p.list, i, i+1)
	}
	if len(p.list) == maxProblems {
		p.list = slices.Delete(p.list, 0, 1)
	}
	p.list = append(p.list, added)
	return len(line), nil
}

// newestFirst returns the problems.
func (p *problems) newestFirst() []problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Clone(p.list)
	slices.Reverse(list)
	return list
}
