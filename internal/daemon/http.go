// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HTTP serves the endpoints /metrics, /livez and /readyz of a server, and its state as text at /.
type HTTP struct {
	Process // of the server; Metrics gets those of the connections, too

	// Clients returns what the server knows about its clients, which /clients serves as JSON to clients on this
	// machine. nil: there is no such page.
	Clients func() any

	// Ready returns an error if the server is not ready. /readyz serves the details with an
	// error, and with ?verbose.
	Ready func() (details []string, err error)
}

// Limits of a request and of its connection. The clients read pages of some 50 kB, and send no bodies.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	replyTimeout   = 30 * time.Second // from the end of the header
	pageTimeout    = 20 * time.Second // to build a page, and for those of other clients before it
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

// Serve serves until ctx ends, with a bounded number of connections. It closes l. Serve or the task of
// KeepServing must be called once.
func (h HTTP) Serve(ctx context.Context, l net.Listener) error {
	return h.serve(ctx, l, newHTTPMetrics(h.Metrics))
}

func (h HTTP) serve(ctx context.Context, l net.Listener, metrics httpMetrics) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", buildOne(promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{})))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.serveReady)
	if h.Clients != nil {
		mux.Handle("GET /clients", buildOne(http.HandlerFunc(h.serveClients)))
	}
	started := time.Now()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { h.writeState(w, started, isLocal(r)) })
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: replyTimeout, IdleTimeout: idleTimeout,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(&limitedListener{Listener: l, metrics: metrics}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics and health: %w", err)
	}
	return nil
}

// buildOne returns a handler that builds one page at a time. A page with metrics takes some milliseconds: many
// clients at once would take all processors from the work of the server. TimeoutHandler keeps the page in
// memory, so that a client that does not read it delays no other one.
func buildOne(page http.Handler) http.Handler {
	building := make(chan struct{}, 1)
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case building <- struct{}{}:
			defer func() { <-building }()
			page.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}), pageTimeout, "too many pages are requested at the same time")
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

// isLocal reports whether a request comes from this machine. So do those of kubectl port-forward.
func isLocal(r *http.Request) bool {
	client, _ := netip.ParseAddrPort(r.RemoteAddr) // not a loopback address if it fails
	return client.Addr().Unmap().IsLoopback()
}

// serveClients serves who asked what. Pods must not learn this about each other.
func (h HTTP) serveClients(w http.ResponseWriter, r *http.Request) {
	if !isLocal(r) {
		http.Error(w, "shown to clients on this machine and of kubectl port-forward", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(h.Clients()) // it fails if the client does not read the reply
}

// writeState writes the version, readiness and last problems of the server. Problems may name pods and
// servers: only local clients get them, such as curl on the node and kubectl port-forward.
func (h HTTP) writeState(w io.Writer, started time.Time, local bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "dnsconfigurer %s, started %s\n", h.Version, started.UTC().Format(time.RFC3339))
	details, err := h.Ready()
	if err != nil {
		fmt.Fprintf(&b, "not ready: %v\n", err)
	} else {
		fmt.Fprintln(&b, "ready")
	}
	for _, line := range details {
		fmt.Fprintln(&b, line)
	}
	if h.problems != nil {
		last := h.problems.newestFirst()
		fmt.Fprintf(&b, "%d different warnings and errors", len(last))
		if len(last) > 0 && !local {
			b.WriteString(", shown to clients on this machine and of kubectl port-forward")
			last = nil
		}
		b.WriteByte('\n')
		for _, p := range last {
			fmt.Fprintf(&b, "%s (%d times) %s\n", p.last.UTC().Format(time.RFC3339), p.count, p.text)
		}
	}
	_, _ = io.WriteString(w, strings.Map(func(r rune) rune { // a terminal interprets control characters
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, b.String())) // the client is gone if it fails
}

// KeepServing returns the task of servers that must not stop if metrics and health cannot be served. It serves
// on the sockets that listen opens at addr, see [Keep]. Without an address it does nothing.
func (h HTTP) KeepServing(addr string, listen func(ctx context.Context, addr string) (net.Listener, error)) Task {
	if addr == "" {
		return NoTask
	}
	return func(ctx context.Context) error {
		metrics := newHTTPMetrics(h.Metrics)
		return Keep(ctx, h.Log, "metrics and health not served, retrying", func() error {
			l, err := listen(ctx, addr)
			if err == nil {
				err = h.serve(ctx, l, metrics)
			}
			return err
		})
	}
}

// keepInterval is the interval at which Keep retries.
const keepInterval = 10 * time.Second

// Keep calls serve again and again until ctx ends. It logs each error with message, once while it repeats.
func Keep(ctx context.Context, log *slog.Logger, message string, serve func() error) error {
	for logged := ""; ctx.Err() == nil; Sleep(ctx, keepInterval) {
		if err := serve(); err != nil && ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			log.Error(message, "error", err, "interval", keepInterval)
		}
	}
	return nil
}

// Limits of the connections for metrics and health: of all clients together, and of one client, which
// is an address. An open connection takes 20 kB: without a limit 12,000 connections of one pod, each
// idle after a request, exceed the memory limit of the cluster DNS server. Prometheus and the kubelet
// have one each.
const (
	maxHTTPConnections       = 256
	maxHTTPClientConnections = 16
)

// limitedListener is a listener with these limits. A new connection is always accepted, so that no
// client can keep the probes of the kubelet out. At the limit of its client it replaces the oldest
// one of this client. At the limit of all it replaces the oldest one of the client that has the most.
type limitedListener struct {
	net.Listener
	metrics httpMetrics

	mu   sync.Mutex
	open []*limitedConn // the oldest first
}

// httpMetrics are the metrics of the connections.
type httpMetrics struct {
	connections             prometheus.Gauge
	closedClient, closedAll prometheus.Counter // by the limit that was reached
}

// newHTTPMetrics returns the metrics, registered with r.
func newHTTPMetrics(r prometheus.Registerer) httpMetrics {
	closed := NewCounterVec(r, "dnsconfigurer_http_closed_total",
		"Connections for metrics and health that were closed for a new one, by limit: client (of one client) or all.",
		"limit", "client", "all")
	m := httpMetrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_http_connections", Help: "Open connections for metrics and health.",
		}),
		closedClient: closed.WithLabelValues("client"), closedAll: closed.WithLabelValues("all"),
	}
	r.MustRegister(m.connections)
	return m
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	client   netip.Addr
}

// Accept waits for a connection and returns it. It may close another one.
func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &limitedConn{Conn: c, listener: l}
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		conn.client = tcp.AddrPort().Addr().Unmap()
	}
	if replaced := l.add(conn); replaced != nil {
		replaced.Conn.Close()
	}
	return conn, nil
}

// add adds a connection. It removes and returns the connection that is replaced, or nil.
func (l *limitedListener) add(c *limitedConn) (replaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[netip.Addr]int{}
	most := 0
	for _, o := range l.open {
		counts[o.client]++
		most = max(most, counts[o.client])
	}
	replace := -1
	switch {
	case counts[c.client] >= maxHTTPClientConnections:
		l.metrics.closedClient.Inc()
		replace = slices.IndexFunc(l.open, func(o *limitedConn) bool { return o.client == c.client })
	case len(l.open) >= maxHTTPConnections:
		l.metrics.closedAll.Inc()
		replace = slices.IndexFunc(l.open, func(o *limitedConn) bool { return counts[o.client] == most })
	}
	if replace >= 0 {
		replaced = l.open[replace]
		l.open = slices.Delete(l.open, replace, replace+1)
	}
	l.open = append(l.open, c)
	l.metrics.connections.Set(float64(len(l.open)))
	return replaced
}

// Close closes the connection. A connection that was replaced is closed already.
func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.open = slices.DeleteFunc(l.open, func(o *limitedConn) bool { return o == c })
	l.metrics.connections.Set(float64(len(l.open)))
	l.mu.Unlock()
	return c.Conn.Close()
}

// CheckAddress checks an address for TCP. Its host may be empty or a name; "" is valid.
func CheckAddress(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address with a port", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port is not a number of at most 65535", addr)
	}
	return nil
}
