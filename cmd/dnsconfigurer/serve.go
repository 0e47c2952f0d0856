// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// newLogger returns the log of a server. client-go's lines go there too.
func newLogger(w io.Writer, format string) (*slog.Logger, error) {
	var h slog.Handler
	switch format {
	case "text":
		h = slog.NewTextHandler(w, nil)
	case "json":
		h = slog.NewJSONHandler(w, nil)
	default:
		return nil, usageError{fmt.Errorf("--log-format %q: want text or json", format)}
	}
	log := slog.New(h)
	klog.SetSlogLogger(log)
	return log, nil
}

// frugal fits Go's runtime to a process that passes short messages on and shares the
// node with pods, until restore is called. A message goes through half a dozen
// goroutines: on one processor they run one after the other, on several each wakes a
// thread for the next, which doubles the time of a call. Garbage is collected when
// the heap has grown by half, not only when it has doubled. $GOMAXPROCS and $GOGC
// win.
func frugal() (restore func()) {
	processors, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(50)
	if os.Getenv("GOGC") != "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	}
}

// httpRetry is the pause before a port that is taken is tried again.
const httpRetry = 10 * time.Second

// keepServingHTTP is serveHTTP for a server that must not end because of its metrics:
// it says once what is wrong, and tries again.
func keepServingHTTP(ctx context.Context, listen func() (net.Listener, error), metrics prometheus.Gatherer, ready func() ([]string, error), log *slog.Logger) error {
	said := ""
	for {
		err := serveHTTP(ctx, listen, metrics, ready)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Error("metrics and health are not served, trying again", "error", err, "every", httpRetry)
		}
		select {
		case <-time.After(httpRetry):
		case <-ctx.Done():
		}
	}
}

// socketHint adds to err, for which a socket was not opened, what can be done about it.
// Field is that of its address, and its flag.
func socketHint(err error, field string) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = fmt.Sprintf("another server has it; --%s, or %[1]s in the configuration, takes another address", field)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = fmt.Sprintf("give --%s, or %[1]s in the configuration, an address that the node has", field)
	case errors.Is(err, syscall.EACCES):
		hint = "ports below 1024 need CAP_NET_BIND_SERVICE"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}

// listenAt opens a socket at addr, which no other has.
func listenAt(addr string) func() (net.Listener, error) {
	return func() (net.Listener, error) { return net.Listen("tcp", addr) }
}

// serveHTTP serves /metrics, /livez and /readyz at what listen opens, until ctx ends.
// ready says why a server is not ready; nil: it is. Its lines are for /readyz?verbose, and
// for who asks why.
func serveHTTP(ctx context.Context, listen func() (net.Listener, error), metrics prometheus.Gatherer, ready func() ([]string, error)) error {
	l, err := listen()
	if err != nil {
		return fmt.Errorf("serving metrics and health: %w", socketHint(err, "http"))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		detail, err := ready()
		said := "ok"
		if err != nil {
			said = err.Error()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, said)
		if err != nil || r.URL.Query().Has("verbose") {
			for _, line := range detail {
				fmt.Fprintln(w, line)
			}
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics and health: %w", err)
	}
	return nil
}
