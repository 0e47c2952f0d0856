// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/statuspage"
)

// HTTP serves the endpoints /metrics, /livez and /readyz of a server, and its status page at /.
type HTTP struct {
	Metrics prometheus.Gatherer
	Log     *slog.Logger // of the server, from [NewLogger] or a [LogWriter]

	// Ready returns an error if the server is not ready. /readyz serves the details with an
	// error, and with ?verbose.
	Ready func() (details []string, err error)
}

// Limits of a request and of its connection. The clients read pages of some 50 kB, and send no bodies.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	replyTimeout   = 30 * time.Second // from the end of the header
	idleTimeout    = 2 * time.Minute  // longer than the usual intervals of Prometheus, up to a minute
	maxHeaderBytes = 16 << 10
)

// ListenHTTP opens the socket for [HTTP.Serve].
func ListenHTTP(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		if call, ok := errors.AsType[syscall.Errno](err); ok {
			err = call // without the address once more, and the system call
		}
		return nil, fmt.Errorf("serving metrics and health on %s: %w", addr, SocketHint(err, "http"))
	}
	return l, nil
}

// Serve serves until ctx ends, with a bounded number of connections. It closes l.
func (h HTTP) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /{$}", &statuspage.Page{
		Metrics: h.Metrics, Ready: h.Ready, Problems: statuspage.ProblemsOf(h.Log), Started: time.Now(),
	})
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: replyTimeout, IdleTimeout: idleTimeout,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(&limitedListener{Listener: l}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics and health: %w", err)
	}
	return nil
}

func (h HTTP) serveReady(w http.ResponseWriter, r *http.Request) {
	details, err := h.Ready()
	status := "ok"
	if err != nil {
		status = err.Error()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, status)
	if err == nil && !r.URL.Query().Has("verbose") {
		return
	}
	for _, line := range details {
		fmt.Fprintln(w, line)
	}
}

// httpRetry is the interval at which KeepServing retries.
const httpRetry = 10 * time.Second

// KeepServing is Serve for servers that must not stop if metrics and health cannot be served.
// It retries after an error, and logs each error once while it repeats.
func (h HTTP) KeepServing(ctx context.Context, listen func(context.Context) (net.Listener, error)) error {
	logged := ""
	for ctx.Err() == nil {
		l, err := listen(ctx)
		if err == nil {
			err = h.Serve(ctx, l)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if err.Error() != logged {
			logged = err.Error()
			h.Log.Error("metrics and health not served, retrying", "error", err, "interval", httpRetry)
		}
		select {
		case <-time.After(httpRetry):
		case <-ctx.Done():
		}
	}
	return nil
}
