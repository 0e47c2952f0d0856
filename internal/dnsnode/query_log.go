// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// logClasses are the values of QueryLogConfiguration.Classes.
var logClasses = map[string]dnsserver.LogClass{
	"all": dnsserver.LogAll, "success": dnsserver.LogSuccess, "denial": dnsserver.LogDenial, "error": dnsserver.LogError,
}

// newQueryLog returns the log of a configuration. logFormat is LogFormat.
func newQueryLog(c v1alpha1.QueryLogConfiguration, logFormat string) dnsserver.QueryLog {
	l := dnsserver.QueryLog{Zones: config.Names(c.Zones), JSON: logFormat == "json"}
	for _, class := range c.Classes {
		l.Classes |= logClasses[class]
	}
	return l
}

const (
	// maxQueryLines bounds the lines that wait, in bytes: as many as 8,000. As many may be with the writer.
	maxQueryLines = 1 << 20

	// queryLogDelay is how long the first line waits for others: one system call writes them.
	queryLogDelay = 50 * time.Millisecond

	queryLogTimeout       = time.Second // for the last lines, when the process ends
	queryLogErrorInterval = time.Minute // between two log messages about an output that cannot be written
)

// A queryLogWriter writes the lines of a query log without blocking those who log: an output that is slow, or does not
// accept lines, loses lines, which are counted.
type queryLogWriter struct {
	out     io.Writer
	json    bool // as at the start: LogFormat takes effect at a restart
	dropped prometheus.Counter
	log     *slog.Logger

	waiting chan struct{} // an element if lines are not empty
	full    chan struct{} // an element if lines are half as many as there may be

	mu    sync.Mutex
	lines []byte // that wait
	spare []byte // the memory of lines that are written
}

func newQueryLogWriter(out io.Writer, json bool, register prometheus.Registerer, log *slog.Logger) *queryLogWriter {
	return &queryLogWriter{
		out: out, json: json, log: log,
		dropped: promauto.With(register).NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_query_log_dropped_total",
			Help: "Lines of the query log that were dropped, because standard output did not accept them in time.",
		}),
		waiting: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// apply returns what dnsserver needs; nil: nothing is logged.
func (w *queryLogWriter) apply(l dnsserver.QueryLog) *dnsserver.QueryLog {
	if l.Classes == 0 {
		return nil
	}
	l.JSON, l.Write = w.json, w.add
	return &l
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

// take removes the lines that wait.
func (w *queryLogWriter) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines, w.spare = w.spare[:0], nil
	return lines
}

// run writes lines until ctx ends. A write cannot be interrupted, and must not hold up the end of the process.
func (w *queryLogWriter) run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.write(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(queryLogTimeout):
	}
	return nil
}

// write writes lines until ctx ends, and then those that wait.
func (w *queryLogWriter) write(ctx context.Context) {
	var loggedAt time.Time
	isTorn := false // the last line is not complete
	for ended := false; !ended; {
		ended = w.await(ctx)
		lines := w.take()
		n, err := 0, error(nil)
		if isTorn && len(lines) > 0 {
			_, err = w.out.Write([]byte("\n"))
		}
		if err == nil && len(lines) > 0 {
			n, err = w.out.Write(lines)
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
