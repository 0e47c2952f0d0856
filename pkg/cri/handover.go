// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// The service that the shim has on its socket beside those of the runtime. The socket needs no
// further protection: its clients are root on the node.
const (
	shimService    = "dnsconfigurer.v1.Shim"
	handoverMethod = "Handover"
)

// RequestHandover makes the shim that serves the socket at path hand over to a new process of
// its program. It returns nil when the new process serves. If the handover fails, or ctx ends before
// it is complete, it returns the reason, and the shim continues to serve.
func RequestHandover(ctx context.Context, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // gRPC would try it for 20 seconds
		return fmt.Errorf("handover of the shim at %s: no such socket: start the shim", path)
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		return err
	}
	defer conn.Close()
	err = conn.Invoke(ctx, "/"+shimService+"/"+handoverMethod, &frame{}, &frame{})
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unimplemented: // from the runtime, to which an older shim forwards the call
		return fmt.Errorf("the process that serves %s does not support a handover: restart it", path)
	}
	return fmt.Errorf("handover of the shim at %s: %w", path, newCallError(path, "start the shim", err))
}

// handoverService serves [RequestHandover].
type handoverService struct {
	start func(context.Context) error
	done  chan struct{} // closed when another process serves

	mu sync.Mutex // is held during a handover
}

// newHandoverService returns a service whose handovers end with ctx.
func (s *Shim) newHandoverService(ctx context.Context) *handoverService {
	start := func(request context.Context) error {
		request, cancel := context.WithCancel(request)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return s.Handover(request)
	}
	return &handoverService{start: start, done: make(chan struct{})}
}

func (h *handoverService) register(server *grpc.Server) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: shimService,
		Methods:     []grpc.MethodDesc{{MethodName: handoverMethod, Handler: h.handle}},
	}, nil)
}

// handle is a grpc.MethodHandler.
func (h *handoverService) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request frame
	if err := decode(&request); err != nil {
		return nil, err
	}
	request.data.Free()
	if err := h.handOver(ctx); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &frame{}, nil
}

func (h *handoverService) handOver(ctx context.Context) error {
	if !h.mu.TryLock() {
		return errors.New("another handover is in progress")
	}
	defer h.mu.Unlock()
	if h.isDone() {
		return errors.New("another process serves already")
	}
	if err := h.start(ctx); err != nil {
		return err
	}
	close(h.done)
	return nil
}

// end waits for a handover in progress. It keeps mu locked, so that no further handover begins.
func (h *handoverService) end() { h.mu.Lock() }

func (h *handoverService) isDone() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}
