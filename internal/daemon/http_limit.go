// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

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
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_http_closed_total",
		Help: "Connections for metrics and health that were closed for a new one, by limit: client (of one client) or all.",
	}, []string{"limit"})
	m := httpMetrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_http_connections", Help: "Open connections for metrics and health.",
		}),
		closedClient: closed.WithLabelValues("client"), closedAll: closed.WithLabelValues("all"),
	}
	r.MustRegister(m.connections, closed)
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
