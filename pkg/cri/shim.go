// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// Shim serves CRI on a listener and passes it on to the runtime. The fields are set
// before Run.
type Shim struct {
	Listener net.Listener // Run closes it
	Runtime  string       // the runtime's endpoint, as "unix:///run/containerd/containerd.sock"
	Metrics  *Metrics     // of the calls; nil counts nothing

	// DrainTimeout is how long calls may go on when the shim is to stop; 0 is 4
	// seconds, a second less than a kubelet gives a connection to come up.
	DrainTimeout time.Duration

	running  atomic.Bool
	hook     atomic.Pointer[Hook]
	answered atomic.Bool // the runtime has answered a call
}

// Ready returns nil once the runtime has answered a call, and says before that what
// is waited for.
func (s *Shim) Ready() error {
	if !s.answered.Load() {
		return errors.New("the container runtime has not answered a call yet")
	}
	return nil
}

// Alive returns nil when the shim takes up a connection as a kubelet makes it. It
// does not ask the runtime: one that hangs is not cured by a new shim.
func (s *Shim) Alive(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+s.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready { // the server has sent its settings
			return nil
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("the shim does not take up a connection: %w", ctx.Err())
		}
	}
}

// SetHook makes h the hook of every request that arrives from now on. It must be called
// before Run and may be called again at any time. Requests in progress keep their hook.
func (s *Shim) SetHook(h *Hook) { s.hook.Store(h) }

// Run serves until ctx ends and then lets the calls that are under way come to
// their end, streams without an end first. It does not wait for the runtime: while
// this one is away, calls fail as they do without a shim. It returns nil when it
// was told to stop, and panics when it is called twice.
func (s *Shim) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		panic("cri: second call of Shim.Run")
	}
	if s.hook.Load() == nil {
		return errors.Join(errors.New("no hook is set: call SetHook before Run"), s.Listener.Close())
	}
	runtime, err := dial(s.Runtime)
	if err != nil {
		return errors.Join(err, s.Listener.Close())
	}
	defer runtime.Close()
	return s.serve(ctx, runtime)
}

// serve is Run with a connection to the runtime.
func (s *Shim) serve(ctx context.Context, runtime grpc.ClientConnInterface) error {
	drain := make(chan struct{})
	f := &forwarder{runtime: runtime, hook: &s.hook, drain: drain, metrics: s.Metrics, answered: &s.answered}
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.UnknownServiceHandler(f.handle),
		// The ends of the line have limits and texts of their own for them.
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.WaitForHandlers(true),
	)
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.Listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", s.Listener.Addr(), err)
	case <-ctx.Done():
	}
	close(drain)
	s.stop(server)
	return <-served
}

// stop ends server: as gracefully as the time allows.
func (s *Shim) stop(server *grpc.Server) {
	timeout := s.DrainTimeout
	if timeout == 0 {
		timeout = 4 * time.Second
	}
	late := time.AfterFunc(timeout, server.Stop)
	defer late.Stop()
	server.GracefulStop()
}

// dial returns a connection to the runtime that is made when the first call needs
// it, and again soon after it was lost.
func dial(endpoint string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(endpoint, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), // what the kubelet says
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(rawCodec{}),
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
			grpc.MaxCallSendMsgSize(math.MaxInt32),
		),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	)...)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	return conn, nil
}
