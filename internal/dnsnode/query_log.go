// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// queryLog is a validated QueryLogConfiguration.
type queryLog struct {
	dnsserver.QueryLog        // without Write
	file               string // "": standard output
}

// logClasses are the values of QueryLogConfiguration.Classes.
var logClasses = map[string]dnsserver.LogClass{
	"all": dnsserver.LogAll, "success": dnsserver.LogSuccess, "denial": dnsserver.LogDenial, "error": dnsserver.LogError,
}

// newQueryLog returns the log of a configuration. logFormat is LogFormat.
func newQueryLog(c v1alpha1.QueryLogConfiguration, logFormat string) queryLog {
	l := queryLog{file: c.File}
	for _, class := range c.Classes {
		l.Classes |= logClasses[class]
	}
	l.Zones, l.JSON = config.Names(c.Zones), logFormat == "json"
	return l
}

const (
	// maxQueryLines bounds the lines that wait, in bytes: as many as 8,000. As many may be with the writer.
	maxQueryLines = 1 << 20

	// queryLogDelay is how long the first line waits for others: one system call writes them.
	queryLogDelay = 50 * time.Millisecond

	// queryLogTimeout is how long a write to a named pipe may take, and how long a writer may take to end.
	queryLogTimeout = time.Second

	queryLogErrorInterval = time.Minute // between two log messages about a file that cannot be written
)

// A queryLogWriter writes the lines of a query log without blocking those who log: a target that is slow, or does not
// accept lines, loses lines, which are counted.
type queryLogWriter struct {
	stdout  io.Writer
	json    bool // as at the start: LogFormat takes effect at a restart
	dropped prometheus.Counter
	log     *slog.Logger

	waiting chan struct{} // an element if lines are not empty
	full    chan struct{} // an element if lines are half as many as there may be
	changed chan struct{} // an element if target has changed

	mu     sync.Mutex
	lines  []byte // that wait
	spare  []byte // the memory of lines that are written
	target io.Writer
	file   string // of target; "": stdout
	writer int    // the number of the goroutine that takes lines
}

func newQueryLogWriter(stdout io.Writer, json bool, register prometheus.Registerer, log *slog.Logger) *queryLogWriter {
	return &queryLogWriter{
		stdout: stdout, target: stdout, json: json, log: log,
		dropped: promauto.With(register).NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_query_log_dropped_total",
			Help: "Lines of the query log that were dropped, because its file or standard output did not accept them in time.",
		}),
		waiting: make(chan struct{}, 1), full: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// apply sets the target of the lines, and returns what dnsserver needs; nil: nothing is logged.
func (w *queryLogWriter) apply(l queryLog) *dnsserver.QueryLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.file != w.file {
		w.file, w.target = l.file, w.stdout
		if l.file != "" {
			w.target = &logFile{path: l.file}
		}
		daemon.Notify(w.changed)
	}
	if l.Classes == 0 {
		return nil
	}
	next := l.QueryLog
	next.JSON, next.Write = w.json, w.add
	return &next
}

// add adds lines. It never blocks: lines that do not fit are dropped.
func (w *queryLogWriter) add(lines []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines)+len(lines) > maxQueryLines {
		w.drop(lines)
		return
	}
	if len(w.lines) == 0 {
		daemon.Notify(w.waiting)
	}
	if w.lines = append(w.lines, lines...); len(w.lines) > maxQueryLines/2 {
		daemon.Notify(w.full)
	}
}

func (w *queryLogWriter) drop(lines []byte) { w.dropped.Add(float64(bytes.Count(lines, []byte("\n")))) }

// take removes the lines that wait. A writer that has been replaced gets none.
func (w *queryLogWriter) take(writer int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if writer != w.writer {
		return nil
	}
	lines := w.lines
	w.lines, w.spare = w.spare[:0], nil
	return lines
}

// run writes lines until ctx ends. Each target has a goroutine of its own: a write to a file system that hangs cannot
// be interrupted, and must hold up neither another target nor the end of the process.
func (w *queryLogWriter) run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.mu.Lock()
		w.writer++
		writer, target := w.writer, w.target
		w.mu.Unlock()
		done := make(chan struct{})
		inner, stop := context.WithCancel(ctx)
		go func() {
			defer close(done)
			w.write(inner, writer, target)
		}()
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
		stop()
		select {
		case <-done:
		case <-time.After(queryLogTimeout):
		}
	}
	return nil
}

// write writes lines to a target until ctx ends, and then those that wait.
func (w *queryLogWriter) write(ctx context.Context, writer int, target io.Writer) {
	if f, ok := target.(*logFile); ok {
		defer f.close()
	}
	var loggedAt time.Time
	isTorn := false // the last line in the target is not complete
	for ended := false; !ended; {
		ended = w.await(ctx)
		lines := w.take(writer)
		n, err := 0, error(nil)
		if isTorn && len(lines) > 0 {
			_, err = target.Write([]byte("\n"))
		}
		if err == nil && len(lines) > 0 {
			n, err = target.Write(lines)
			isTorn = n > 0 && lines[n-1] != '\n'
		}
		if now := time.Now(); err != nil && now.Sub(loggedAt) >= queryLogErrorInterval {
			loggedAt = now
			w.log.Warn("cannot write the query log, lines are dropped", "error", err)
		}
		w.drop(lines[n:]) // none without an error
		w.mu.Lock()
		w.spare = lines
		w.mu.Unlock()
	}
}

// await waits until lines are to be written, or ctx has ended.
func (w *queryLogWriter) await(ctx context.Context) (ended bool) {
	if ctx.Err() != nil { // lines may wait, perhaps for the next writer
		return true
	}
	select {
	case <-w.waiting:
	case <-ctx.Done():
		return true
	}
	select {
	case <-w.full:
	case <-time.After(queryLogDelay):
	case <-ctx.Done():
	}
	return false
}

// logFile is a file that is appended to. It is opened when it is written to, and again when its path names another file.
type logFile struct {
	path string
	file *os.File // nil: not open
}

// Write appends b.
func (f *logFile) Write(b []byte) (int, error) {
	if f.file != nil && !f.isCurrent() {
		f.close()
	}
	if f.file == nil {
		// A named pipe without a reader is an error, instead of a wait for one.
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	_ = f.file.SetWriteDeadline(time.Now().Add(queryLogTimeout)) // only pipes have one
	n, err := f.file.Write(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.close()
	}
	return n, err
}

// isCurrent reports whether the path names the open file.
func (f *logFile) isCurrent() bool {
	now, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	opened, err := f.file.Stat()
	return err == nil && os.SameFile(now, opened)
}

func (f *logFile) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
