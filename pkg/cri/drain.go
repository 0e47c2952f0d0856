// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// drain waits until the calls in progress are complete, and cancels them after DrainTimeout. It calls
// endStreams when the server has sent GOAWAY to all clients: the kubelet opens a new stream as soon as
// one has ended, and must do so in the next process.
func (s *Shim) drain(ctx context.Context, server *grpc.Server, endStreams func()) {
	draining, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	deadline := time.AfterFunc(cmp.Or(s.DrainTimeout, defaultDrainTimeout), func() {
		s.log().Warn("calls cancelled: they took longer than the limit of a drain", "calls", s.Calls())
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
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = server.Serve(l) }() // ends with the server
	conn, err := grpc.NewClient("passthrough:///probe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(l.dial))
	if err != nil {
		return func() {}
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready && conn.WaitForStateChange(ctx, state); {
		state = conn.GetState()
	}
	return func() {
		conn.WaitForStateChange(ctx, connectivity.Ready) // by GOAWAY
		conn.Close()
		// The server sends GOAWAY to all clients under a lock. Serve acquires this lock, too, so
		// that it returns after the last GOAWAY.
		_ = server.Serve(l)
	}
}

// memoryListener accepts connections in memory.
type memoryListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memoryListener) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }
