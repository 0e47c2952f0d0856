// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return new(net.TCPAddr) }

// pipeConn is a connection of a client with an address.
type pipeConn struct {
	net.Conn
	client netip.Addr
	closed func() // called when the server closes it
}

func (c pipeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.client, 40000))
}

func (c pipeConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// connect opens a connection of client i and returns the client's end.
func (l *pipeListener) connect(i int, closed func()) net.Conn {
	server, client := net.Pipe()
	l.conns <- pipeConn{server, netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), closed}
	return client
}

// isOpen reports whether the other end of a connection is open: a read waits.
func isOpen(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

// TestLimitedListener: each new connection is accepted. At the limit of a client it replaces the
// client's oldest connection, at the limit of all the oldest one of the client with the most.
func TestLimitedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipeListener()
		l := &limitedListener{Listener: pipes, metrics: newHTTPMetrics(prometheus.NewRegistry())}
		expectCounts := func(open, closedClient, closedAll float64) {
			t.Helper()
			for name, metric := range map[string]prometheus.Collector{
				fmt.Sprintf("%v open", open):                                    l.metrics.connections,
				fmt.Sprintf("%v closed at the limit of a client", closedClient): l.metrics.closedClient,
				fmt.Sprintf("%v closed at the limit of all", closedAll):         l.metrics.closedAll,
			} {
				if got := fmt.Sprint(testutil.ToFloat64(metric)); got != strings.Fields(name)[0] {
					t.Errorf("the metric says %s, want %s", got, name)
				}
			}
		}
		var accepted []net.Conn
		open := func(client int) net.Conn {
			t.Helper()
			ends := make(chan net.Conn, 1)
			go func() { ends <- pipes.connect(client, func() {}) }()
			c := must.Get(l.Accept())(t)
			accepted = append(accepted, c)
			return <-ends
		}
		var greedy []net.Conn
		modest := open(1)
		for range maxHTTPClientConnections {
			greedy = append(greedy, open(2))
		}
		if !isOpen(greedy[0]) {
			t.Fatal("closed at the limit")
		}
		expectCounts(1+maxHTTPClientConnections, 0, 0)
		greedy = append(greedy, open(2))
		if isOpen(greedy[0]) || !isOpen(greedy[1]) || !isOpen(modest) {
			t.Errorf("above the limit of a client: open are %t, %t and %t of another one, want the second and that",
				isOpen(greedy[0]), isOpen(greedy[1]), isOpen(modest))
		}
		expectCounts(1+maxHTTPClientConnections, 1, 0)
		for client := 100; len(l.open) < maxHTTPConnections; client++ {
			open(client)
		}
		if !isOpen(greedy[1]) {
			t.Fatal("closed at the limit of all")
		}
		expectCounts(maxHTTPConnections, 1, 0)
		last := open(3)
		if isOpen(greedy[1]) || !isOpen(greedy[2]) || !isOpen(modest) || !isOpen(last) {
			t.Errorf("above the limit of all: open are %t, %t and %t, %t of others, want all but the first",
				isOpen(greedy[1]), isOpen(greedy[2]), isOpen(modest), isOpen(last))
		}
		expectCounts(maxHTTPConnections, 1, 1)
		for _, c := range accepted {
			c.Close()
		}
		expectCounts(0, 1, 1)
		if len(l.open) != 0 {
			t.Errorf("%d connections are counted after all are closed", len(l.open))
		}
	})
}

// TestHTTP_Timeouts: a connection that sends no request, does not read its reply or is idle is closed.
func TestHTTP_Timeouts(t *testing.T) {
	const request = "GET /livez HTTP/1.1\r\nHost: x\r\n"
	for _, tt := range []struct {
		name string
		send string
		read bool // the reply
		want time.Duration
	}{
		{"no request", "", false, headerTimeout},
		{"half a request", request, false, headerTimeout},
		{"no body", request + "Content-Length: 1\r\n\r\n", true, requestTimeout},
		{"unread reply", request + "\r\n", false, replyTimeout},
		{"idle", request + "\r\n", true, idleTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes := newPipeListener()
				ended := make(chan error, 1)
				h := HTTP{Process: Process{Metrics: prometheus.NewRegistry()}}
				ctx, stop := context.WithCancel(t.Context())
				go func() { ended <- h.Serve(ctx, pipes) }()
				begin, closed := time.Now(), make(chan time.Time, 2) // the server may close it twice
				c := pipes.connect(1, func() { closed <- time.Now() })
				must.Get(io.WriteString(c, tt.send))(t)
				if tt.read {
					reply, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil || reply.StatusCode != http.StatusOK {
						t.Fatalf("got %v, %v", reply, err)
					}
				}
				if took := (<-closed).Sub(begin); took != tt.want {
					t.Errorf("closed after %v, want %v", took, tt.want)
				}
				c.Close()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// collector is a collector that takes a second, and records how many calls it has at the same time.
type collector struct {
	prometheus.Gauge
	mu            sync.Mutex
	running, most int
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.add(1)
	time.Sleep(time.Second)
	c.add(-1)
	c.Gauge.Collect(to)
}

func (c *collector) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
	c.most = max(c.most, c.running)
}

// TestHTTP_OnePage: pages are built one after the other. A client that does not read its page keeps no
// other one waiting.
func TestHTTP_OnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes, slow := newPipeListener(), &collector{Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"})}
		h := HTTP{Process: Process{Metrics: prometheus.NewRegistry()},
			Ready: func() ([]string, error) { return nil, nil }}
		h.Metrics.MustRegister(slow)
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- h.Serve(ctx, pipes) }()
		begin := time.Now()
		var clients []net.Conn
		for i, path := range []string{"/metrics", "/metrics", "/metrics", "/metrics"} {
			c := pipes.connect(i, func() {})
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
			synctest.Wait() // it is the next one to be built
			clients = append(clients, c)
		}
		for i, c := range clients[1:] { // the first one does not read
			reply, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || reply.StatusCode != http.StatusOK {
				t.Fatalf("got %v, %v", reply, err)
			}
			if took, want := time.Since(begin), time.Duration(i+2)*time.Second; took != want {
				t.Errorf("page %d is complete after %v, want %v", i+2, took, want)
			}
		}
		if slow.most != 1 {
			t.Errorf("%d pages were built at the same time, want 1", slow.most)
		}
		for _, c := range clients {
			c.Close()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestHTTP_State: version, readiness with details, and the problems, which may have any characters. Clients
// of other machines, such as pods, get the number of problems only.
func TestHTTP_State(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := HTTP{
			Process: Process{Version: "v1.2.3", problems: &problems{}},
			Ready:   func() ([]string, error) { return []string{"namespaces: not synced"}, errors.New("no snapshot") },
		}
		started := time.Now()
		state := func(local bool) string {
			var b strings.Builder
			h.writeState(&b, started, local)
			return b.String()
		}
		head := "dnsconfigurer v1.2.3, started 2000-01-01T00:00:00Z\n"
		want := head + "not ready: no snapshot\nnamespaces: not synced\n0 different warnings and errors\n"
		if got := state(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		h.Ready = func() ([]string, error) { return nil, nil }
		log := slog.New(h.problems.handler())
		log.Error("lookup failed", "pod", "bank/vault-0")
		log.Warn("refused", "name", "\x1b[2J\n<b>")
		log.Warn("refused", "name", "\x1b[2J\n<b>")
		want = head + "ready\n2 different warnings and errors\n" +
			"2000-01-01T00:00:00Z (2 times) level=WARN msg=refused name=\"\\x1b[2J\\n<b>\"\n" +
			"2000-01-01T00:00:00Z (1 times) level=ERROR msg=\"lookup failed\" pod=bank/vault-0\n"
		if got := state(true); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		want = head + "ready\n2 different warnings and errors, shown to clients on this machine and of kubectl port-forward\n"
		if got := state(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestHTTP_Clients: other pods must not learn what a pod asks for.
func TestHTTP_Clients(t *testing.T) {
	h := HTTP{Clients: func() any { return []string{"10.244.1.7"} }}
	for remote, want := range map[string]string{
		"127.0.0.1:40000":          "200 [\"10.244.1.7\"]",
		"[::ffff:127.0.0.1]:40000": "200 [\"10.244.1.7\"]",
		"10.244.1.8:40000":         "403 shown to clients on this machine and of kubectl port-forward",
		"":                         "403 shown to clients on this machine and of kubectl port-forward",
	} {
		w := httptest.NewRecorder()
		h.serveClients(w, &http.Request{RemoteAddr: remote})
		if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("from %s: got %q, want %q", remote, got, want)
		}
	}
}

// TestProblems_Bounded: a repeated problem is counted, and the oldest ones are dropped.
func TestProblems_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p problems
		log := slog.New(p.handler())
		log.Info("not a problem")
		log.Error("first")
		for i := range 100 {
			log.With("node", "a").WithGroup("pod").Warn("refused", "number", i, "text", strings.Repeat("x", 1<<16))
			time.Sleep(time.Second)
		}
		log.Warn("twice")
		log.Info("between")
		log.Warn("twice")
		list := p.newestFirst()
		if len(list) != 32 {
			t.Fatalf("%d problems, want 32", len(list))
		}
		if last := list[0]; last.text != "level=WARN msg=twice" || last.count != 2 || !last.last.Equal(time.Now()) {
			t.Errorf("last problem %+v", last)
		}
		if !strings.HasPrefix(list[1].text, "level=WARN msg=refused node=a pod.number=99 pod.text=xxx") || len(list[1].text) > 512 {
			t.Errorf("problem before has %d bytes: %q", len(list[1].text), list[1].text)
		}
	})
}

func TestInterruptible(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name        string
		interrupted bool
		takes       time.Duration
		want        string
	}{
		{"a call may take long", false, time.Hour, "failed"},
		{"an interrupted call returns its own error", true, interruptGrace - 1, "failed"},
		{"an interrupted call that does not return is abandoned", true, time.Hour, "ended before completion: interrupt"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			if tt.interrupted {
				interrupt(errors.New("interrupt"))
			}
			err := Interruptible(ctx, func() error {
				time.Sleep(tt.takes)
				return failed
			})
			if fmt.Sprint(err) != tt.want {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
			time.Sleep(tt.takes) // until an abandoned call has ended, as synctest wants
		})
	}
}
