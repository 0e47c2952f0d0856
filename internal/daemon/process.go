// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newHandler returns a handler of a log in a format.
func newHandler(w io.Writer, format string) (slog.Handler, error) {
	switch format {
	case "text":
		return slog.NewTextHandler(w, nil), nil
	case "json":
		return slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: emptyList}), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}

// emptyList replaces a list that is nil: JSON would have null.
func emptyList(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	if v := reflect.ValueOf(a.Value.Any()); v.Kind() == reflect.Slice && v.IsNil() {
		a.Value = slog.AnyValue([]string{})
	}
	return a
}

// TuneRuntime tunes Go's runtime: the number of processors, 0 for the default, and how much the heap grows, in percent,
// until garbage is collected. $GOMAXPROCS and $GOGC take precedence.
//
// A process that passes short messages and shares the node with pods has one processor and 50 %. A message passes half a
// dozen goroutines: on one processor they run one after the other; on several each wakes a thread for the next, which
// doubles the time of a call. Other servers have 75 %. A cluster DNS server that lists 500,000 endpoints again then has
// 1.4 times as much resident memory as before, and 1.5 times with Go's 100 % (TestRelist in test/bench/fault). With 50 %
// it has 1.3 times, but more replies wait for a collection while many queries wait for other servers.
func TuneRuntime(processors, growth int) (restore func()) {
	defaultProcessors, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(growth)
	if os.Getenv("GOGC") != "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
	return func() {
		runtime.GOMAXPROCS(defaultProcessors)
		debug.SetGCPercent(percent)
	}
}

// SocketHint adds a hint to the error of opening a socket. field is the name of the field and
// of the flag that set its address.
func SocketHint(err error, field string) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = fmt.Sprintf("stop the other server, or set another address with --%s or %[1]s in the configuration", field)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = fmt.Sprintf("set an address of the node with --%s or %[1]s in the configuration", field)
	case errors.Is(err, syscall.EACCES):
		hint = "ports below 1024 need CAP_NET_BIND_SERVICE, or the sysctl net.ipv4.ip_unprivileged_port_start"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// NewCounterVec returns counters of a label, registered with r. They have a series for each of values: an alert
// needs it before the first event. It panics if r has them already.
func NewCounterVec[V ~string](r prometheus.Registerer, name, help, label string, values ...V) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(string(v))
	}
	r.MustRegister(c)
	return c
}

// NewRegistry returns a registry with the metrics that every server has: its version, and the
// collectors of the Go runtime and of the process.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "dnsconfigurer_build_info",
		Help:        "1, with the version of the program and of Go as labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
