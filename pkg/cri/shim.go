// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// defaultDrainTimeout is one second less than the time that a kubelet waits for a
// connection.
const defaultDrainTimeout = 4 * time.Second

// greetTimeout is how long the runtime may take from accepting a connection to its first bytes,
// the default of gRPC. A runtime that starts on a busy node needs seconds. A runtime that is not
// running fails at once: connecting to a unix socket does not wait for packets.
const greetTimeout = 20 * time.Second

// Shim serves CRI on a listener and forwards every call to the runtime. Set the fields and
// call SetHook before Run.
type Shim struct {
	Listener net.Listener // closed by Run
	Runtime  string       // endpoint of the runtime, such as "unix:///run/containerd/containerd.sock"
	Metrics  *Metrics
	Log      *slog.Logger

	// DrainTimeout is how long calls in progress may last after the context of Run is
	// done; 0 is 4 seconds.
	DrainTimeout time.Duration

	// Started is called with the ID of each sandbox that the runtime has created for a request, and
	// with the report of the request; Stopped when a sandbox was stopped. They must not block, and
	// may be nil.
	Started func(id string, r Report)
	Stopped func(id string)

	runtime  grpc.ClientConnInterface
	draining <-chan struct{} // closed when open-ended streams must end
	calls    atomic.Int64    // in progress
	hook     atomic.Pointer[Hook]
	answered atomic.Bool           // by the first header or message of the runtime
	dialed   atomic.Pointer[error] // of the last attempt to connect to the runtime
}

// SetHook makes h the hook of every request that arrives from now on. It must be called
// before Run and may be called again at any time. Requests in progress keep their hook.
func (s *Shim) SetHook(h *Hook) { s.hook.Store(h) }

// Ready returns nil if the runtime has answered a call. The error says what is missing.
func (s *Shim) Ready() error {
	if !s.answered.Load() {
		return errors.New("the container runtime has not answered a call yet")
	}
	return nil
}

// Calls returns the number of calls in progress.
func (s *Shim) Calls() int { return int(s.calls.Load()) }

// Alive returns nil if the shim accepts a connection from a kubelet. It does not call the
// runtime: restarting the shim does not cure a runtime that hangs.
func (s *Shim) Alive(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+s.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	if !awaitReady(ctx, conn) {
		return fmt.Errorf("the shim does not accept a connection: %w", ctx.Err())
	}
	return nil
}

// awaitReady reports whether conn is connected before ctx ends: the server has sent its settings.
func awaitReady(ctx context.Context, conn *grpc.ClientConn) bool {
	conn.Connect()
	state := conn.GetState()
	for state != connectivity.Ready && conn.WaitForStateChange(ctx, state) {
		state = conn.GetState()
	}
	return state == connectivity.Ready
}

// Run serves until ctx is done and then waits for the calls in progress, up to
// DrainTimeout. Event streams, which last as long as the runtime, end at once. Run does not wait for
// the runtime: while the runtime is down, calls fail as they do without a shim. It returns nil when
// ctx is done. It must be called once.
func (s *Shim) Run(ctx context.Context) error {
	if l, ok := s.Listener.(*Listener); ok {
		defer l.HoldLock()() // a second shim must not start while this one drains
	}
	runtime, err := dial(s.Runtime, grpc.WithContextDialer(s.dialRuntime))
	if err != nil {
		return errors.Join(err, s.Listener.Close())
	}
	defer runtime.Close()
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { s.watchRuntime(watching, runtime) })
	defer watch.Wait()
	defer stop()
	return s.serve(ctx, runtime)
}

// serve is Run with a connection to the runtime.
func (s *Shim) serve(ctx context.Context, runtime grpc.ClientConnInterface) error {
	draining := make(chan struct{})
	s.runtime, s.draining = runtime, draining
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.UnknownServiceHandler(s.handle),
		// The kubelet and the runtime have limits of their own, with their own errors.
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.WaitForHandlers(true),
	)
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.Listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", s.Listener.Addr(), err)
	case <-ctx.Done():
	}
	s.Listener.Close()
	<-served
	if l, ok := s.Listener.(*Listener); ok {
		l.awaitServed()
	}
	s.drain(ctx, server, func() { close(draining) })
	return nil
}

// dial returns a connection to the runtime. It connects on the first call and reconnects
// within a second after the connection was lost.
func dial(endpoint string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(endpoint, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), // as the kubelet sends it
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: greetTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	)...)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	return conn, nil
}

// drain waits until the calls in progress are complete, and cancels them after DrainTimeout. It calls
// endStreams when the server has sent GOAWAY to all clients: the kubelet opens a new stream as soon as
// one has ended, and must do so in the next process.
func (s *Shim) drain(ctx context.Context, server *grpc.Server, endStreams func()) {
	draining, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	deadline := time.AfterFunc(cmp.Or(s.DrainTimeout, defaultDrainTimeout), func() {
		s.Log.Warn("calls cancelled: they took longer than the limit of a drain", "calls", s.Calls())
		cancel()
		server.Stop()
	})
	defer deadline.Stop()
	var stopped sync.WaitGroup
	defer stopped.Wait()
	awaitGoAway := watchGoAway(draining, server)
	stopped.Go(func() {
		awaitGoAway()
		endStreams()
	})
	server.GracefulStop()
}

// watchGoAway connects a client to server. The returned function waits until a server that is
// stopped gracefully has sent GOAWAY to all clients, or ctx ends. gRPC has no function for that.
func watchGoAway(ctx context.Context, server *grpc.Server) (awaitGoAway func()) {
	l := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(l) }() // ends with the server
	conn, err := grpc.NewClient("passthrough:///probe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		return func() {}
	}
	awaitReady(ctx, conn)
	return func() {
		conn.WaitForStateChange(ctx, connectivity.Ready) // by GOAWAY
		conn.Close()
		// The server sends GOAWAY to all clients under a lock. Serve acquires this lock, too, so
		// that it returns after the last GOAWAY.
		_ = server.Serve(l)
	}
}

// CheckEndpoints returns an error if the socket of the shim and that of the runtime are one
// file. The shim would forward each call to itself until it runs out of memory. Paths that do not
// exist yet are compared as far as their directories exist.
func CheckEndpoints(listen, runtime string) error {
	a, _ := os.Stat(listen)
	b, _ := os.Stat(runtime)
	if resolve(listen) == resolve(runtime) || os.SameFile(a, b) { // a bind mount has the inode of its source
		return fmt.Errorf("runtime endpoint %q is the socket of the shim %q: set runtimeEndpoint to "+
			"the socket of the container runtime", runtime, listen)
	}
	return nil
}

// resolve returns path without symbolic links, as far as it exists.
func resolve(path string) string {
	dir, rest := path, ""
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Join(path)
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}

// Metrics counts the calls that a [Shim] forwards.
//
// The label values are closed sets: the methods of CRI and "other", the codes of gRPC and
// "other", and the constants of [Outcome].
type Metrics struct {
	requests  *prometheus.CounterVec
	sandboxes *prometheus.CounterVec
	decision  prometheus.Histogram
	panics    prometheus.Counter
	connected prometheus.Gauge
}

// NewMetrics returns metrics that are registered with r, or with nothing if it is nil. It panics if r has them already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	m := &Metrics{
		requests: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_cri_requests_total",
			Help: "Calls forwarded to the container runtime, by method and gRPC code.",
		}, []string{"method", "code"}),
		sandboxes: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_sandbox_decisions_total",
			Help: "RunPodSandbox requests, by outcome.",
		}, []string{"outcome"}),
		decision: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_sandbox_decision_seconds",
			Help:    "Time that the shim adds to a RunPodSandbox request, including the pod lookup.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
		panics: register.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_sandbox_report_panics_total",
			Help: "Panics while the outcome of a RunPodSandbox request was reported.",
		}),
		connected: register.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_runtime_connected",
			Help: "1 if the shim is connected to the container runtime. It connects when the kubelet makes a call.",
		}),
	}
	for _, o := range outcomes {
		m.sandboxes.WithLabelValues(string(o)) // an alert needs the series before the first event
	}
	return m
}

func (m *Metrics) countCall(method string, err error) {
	name := "other"
	if isKnown(method) {
		name = path.Base(method)
	}
	code := "other"
	if c := status.Code(err); c <= codes.Unauthenticated { // the last code of gRPC
		code = c.String()
	}
	m.requests.WithLabelValues(name, code).Inc()
}
