// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The methods whose messages are read.
const (
	runPodSandbox  = "/runtime.v1.RuntimeService/RunPodSandbox"
	stopPodSandbox = "/runtime.v1.RuntimeService/StopPodSandbox" // if Shim.Stopped is set
)

// forwarder forwards calls of any service and method to the runtime.
type forwarder struct {
	runtime  grpc.ClientConnInterface
	hook     *atomic.Pointer[Hook] // for RunPodSandbox
	draining <-chan struct{}       // closed when open-ended streams must end
	metrics  *Metrics
	started  func(id string, r Report) // see Shim
	stopped  func(id string)
	answered *atomic.Bool  // set by the first header or message of the runtime
	calls    *atomic.Int64 // in progress
}

// errDraining ends a stream that would otherwise keep the server from stopping. The
// kubelet handles it like a restart of the runtime: it connects again.
var errDraining = status.Error(codes.Unavailable, "the shim is stopping")

// handle is a grpc.StreamHandler.
func (f *forwarder) handle(_ any, kubelet grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(kubelet)
	if !ok {
		return status.Error(codes.Internal, "stream without a method")
	}
	f.calls.Add(1)
	defer f.calls.Add(-1)
	forward := f.forwardStream
	if methods[method] == unary {
		forward = f.forwardUnary
	}
	err := forward(method, kubelet)
	f.metrics.countCall(method, err)
	return err
}

// forwardUnary forwards a call with one message each way. forwardStream could forward it as well,
// with one more goroutine and twice as many socket writes.
func (f *forwarder) forwardUnary(method string, kubelet grpc.ServerStream) error {
	var request, reply frame
	switch err := kubelet.RecvMsg(&request); {
	case errors.Is(err, io.EOF):
		return status.Error(codes.Internal, "unary call without a request")
	case err != nil:
		return err
	}
	notify := func() {}
	switch {
	case method == runPodSandbox:
		report, err := f.editRequest(kubelet.Context(), &request)
		if err != nil {
			return err
		}
		if f.started != nil {
			notify = func() { f.started(readID(reply.data), report) }
		}
	case method == stopPodSandbox && f.stopped != nil:
		id := readID(request.data)
		notify = func() { f.stopped(id) }
	}
	var header, trailer metadata.MD
	err := f.runtime.Invoke(outgoingContext(kubelet.Context()), method, &request, &reply,
		grpc.Header(&header), grpc.Trailer(&trailer), grpc.CallContentSubtype(contentSubtype(kubelet.Context())))
	kubelet.SetTrailer(withoutReserved(trailer))
	if header != nil {
		f.answered.Store(true)
		if err := kubelet.SetHeader(withoutReserved(header)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	notify()
	return kubelet.SendMsg(&reply)
}

// readID returns the ID of a sandbox, the first field of a reply to RunPodSandbox and of a request of
// StopPodSandbox. "": there is none.
func readID(message mem.BufferSlice) (id string) {
	_ = rangeFields(message.Materialize(), func(f field) error { // the runtime reports what is malformed
		if f.number == 1 {
			id = string(f.value)
		}
		return nil
	})
	return id
}

// editRequest replaces a RunPodSandbox request with the one that the hook returns.
func (f *forwarder) editRequest(ctx context.Context, request *frame) (Report, error) {
	message := request.data.Materialize()
	request.data.Free()
	edited, report, err := f.hook.Load().edit(ctx, message)
	request.data = mem.BufferSlice{mem.SliceBuffer(edited)}
	return report, err
}

// forwardStream forwards a call with any number of messages in both directions.
func (f *forwarder) forwardStream(method string, kubelet grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(outgoingContext(kubelet.Context()))
	defer cancel(nil)
	runtime, err := f.runtime.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.CallContentSubtype(contentSubtype(kubelet.Context())))
	if err != nil {
		return err
	}
	if isOpenEnded(method) {
		go f.cancelOnDrain(ctx, cancel)
	}
	go f.copyRequests(cancel, kubelet, runtime)
	err = f.copyReplies(kubelet, runtime)
	kubelet.SetTrailer(withoutReserved(runtime.Trailer()))
	if errors.Is(context.Cause(ctx), errDraining) {
		return errDraining
	}
	return err
}

// copyRequests sends the kubelet's messages to the runtime. If sending fails, the stream
// has ended and copyReplies receives its status.
func (f *forwarder) copyRequests(cancel context.CancelCauseFunc, kubelet grpc.ServerStream, runtime grpc.ClientStream) {
	for {
		var m frame
		switch err := kubelet.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			_ = runtime.CloseSend()
			return
		case err != nil:
			cancel(err)
			return
		}
		if runtime.SendMsg(&m) != nil {
			return
		}
	}
}

// copyReplies sends the runtime's header and messages to the kubelet, and returns the
// runtime's status.
func (f *forwarder) copyReplies(kubelet grpc.ServerStream, runtime grpc.ClientStream) error {
	if header, err := runtime.Header(); err == nil && header != nil {
		f.answered.Store(true)
		if err := kubelet.SendHeader(withoutReserved(header)); err != nil {
			return err
		}
	}
	for {
		var m frame
		switch err := runtime.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := kubelet.SendMsg(&m); err != nil {
			return err
		}
	}
}

// isOpenEnded reports whether a call may last as long as the runtime runs. The lists whose names
// begin with Stream are finite (KEP-5825).
func isOpenEnded(method string) bool {
	return method[strings.LastIndexByte(method, '/')+1:] == "GetContainerEvents"
}

func (f *forwarder) cancelOnDrain(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-f.draining:
		cancel(errDraining)
	case <-ctx.Done():
	}
}

// outgoingContext returns ctx with the metadata of the kubelet's call for the runtime.
func outgoingContext(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, withoutReserved(md))
}

// contentSubtype returns the kubelet's name for the encoding of its messages: "" for
// application/grpc, "proto" for application/grpc+proto. gRPC uses the same in the reply.
func contentSubtype(ctx context.Context) string {
	for _, contentType := range metadata.ValueFromIncomingContext(ctx, "content-type") {
		if _, subtype, found := strings.Cut(contentType, "+"); found {
			return subtype
		}
	}
	return ""
}

// withoutReserved returns md without the keys that gRPC itself sets on each call.
func withoutReserved(md metadata.MD) metadata.MD {
	md = md.Copy()
	for key := range md {
		switch key {
		case "content-type", "user-agent", "te", "grpc-accept-encoding", "grpc-encoding", "grpc-timeout", "grpc-status-details-bin":
			delete(md, key)
		default:
			if strings.HasPrefix(key, ":") {
				delete(md, key)
			}
		}
	}
	return md
}

// shape is how many messages a call has.
type shape int

const (
	unlisted  shape = iota // a method of a newer CRI, or of another service
	unary                  // one message each way
	streaming              // any number of messages
)

// methods holds the shape of each method of CRI v1. The generated package has them too,
// but linking it costs each shim 200 kB of memory.
var methods = map[string]shape{
	"/runtime.v1.RuntimeService/Version":                   unary,
	"/runtime.v1.RuntimeService/RunPodSandbox":             unary,
	"/runtime.v1.RuntimeService/StopPodSandbox":            unary,
	"/runtime.v1.RuntimeService/RemovePodSandbox":          unary,
	"/runtime.v1.RuntimeService/PodSandboxStatus":          unary,
	"/runtime.v1.RuntimeService/ListPodSandbox":            unary,
	"/runtime.v1.RuntimeService/CreateContainer":           unary,
	"/runtime.v1.RuntimeService/StartContainer":            unary,
	"/runtime.v1.RuntimeService/StopContainer":             unary,
	"/runtime.v1.RuntimeService/RemoveContainer":           unary,
	"/runtime.v1.RuntimeService/ListContainers":            unary,
	"/runtime.v1.RuntimeService/ContainerStatus":           unary,
	"/runtime.v1.RuntimeService/UpdateContainerResources":  unary,
	"/runtime.v1.RuntimeService/ReopenContainerLog":        unary,
	"/runtime.v1.RuntimeService/ExecSync":                  unary,
	"/runtime.v1.RuntimeService/Exec":                      unary,
	"/runtime.v1.RuntimeService/Attach":                    unary,
	"/runtime.v1.RuntimeService/PortForward":               unary,
	"/runtime.v1.RuntimeService/ContainerStats":            unary,
	"/runtime.v1.RuntimeService/ListContainerStats":        unary,
	"/runtime.v1.RuntimeService/PodSandboxStats":           unary,
	"/runtime.v1.RuntimeService/ListPodSandboxStats":       unary,
	"/runtime.v1.RuntimeService/UpdateRuntimeConfig":       unary,
	"/runtime.v1.RuntimeService/Status":                    unary,
	"/runtime.v1.RuntimeService/CheckpointContainer":       unary,
	"/runtime.v1.RuntimeService/CheckpointPod":             unary,
	"/runtime.v1.RuntimeService/RestorePod":                unary,
	"/runtime.v1.RuntimeService/ListMetricDescriptors":     unary,
	"/runtime.v1.RuntimeService/ListPodSandboxMetrics":     unary,
	"/runtime.v1.RuntimeService/RuntimeConfig":             unary,
	"/runtime.v1.RuntimeService/UpdatePodSandboxResources": unary,
	"/runtime.v1.RuntimeService/StreamPodSandboxes":        streaming,
	"/runtime.v1.RuntimeService/StreamContainers":          streaming,
	"/runtime.v1.RuntimeService/StreamContainerStats":      streaming,
	"/runtime.v1.RuntimeService/StreamPodSandboxStats":     streaming,
	"/runtime.v1.RuntimeService/GetContainerEvents":        streaming,
	"/runtime.v1.RuntimeService/StreamPodSandboxMetrics":   streaming,
	"/runtime.v1.ImageService/ListImages":                  unary,
	"/runtime.v1.ImageService/ImageStatus":                 unary,
	"/runtime.v1.ImageService/PullImage":                   unary,
	"/runtime.v1.ImageService/RemoveImage":                 unary,
	"/runtime.v1.ImageService/ImageFsInfo":                 unary,
	"/runtime.v1.ImageService/StreamImages":                streaming,
}

// logInterval is the interval at which a runtime that stays unreachable is logged.
const logInterval = time.Minute

// dialResult is the error of the last attempt to connect to the runtime.
type dialResult struct{ last atomic.Pointer[error] }

func (d *dialResult) set(err error) { d.last.Store(&err) }

func (d *dialResult) get() error {
	if err := d.last.Load(); err != nil && *err != nil {
		return *err
	}
	return errors.New("connected, but the runtime has sent no data yet")
}

// dialRuntime connects to the runtime. It compares the sockets at every attempt, because a link
// may be replaced while the shim runs.
func (s *Shim) dialRuntime(ctx context.Context, _ string) (conn net.Conn, err error) {
	defer func() { s.dialed.set(err) }()
	path := strings.TrimPrefix(s.Runtime, "unix://")
	if err := CheckEndpoints(s.Listener.Addr().String(), path); err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// watchRuntime keeps the metric of the connection up to date until ctx ends. While the runtime
// is unreachable it logs the reason once a minute.
func (s *Shim) watchRuntime(ctx context.Context, conn *grpc.ClientConn) {
	log := s.log()
	var logged time.Time
	down := false // was logged
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect() // a wrong endpoint is logged before the first call
		}
		s.Metrics.setConnected(state == connectivity.Ready)
		switch {
		case state == connectivity.TransientFailure && time.Since(logged) >= logInterval:
			log.Warn("container runtime unreachable, CRI calls fail", "endpoint", s.Runtime, "error", s.dialed.get())
			logged, down = time.Now(), true
		case state == connectivity.Ready && down:
			log.Info("container runtime connected", "endpoint", s.Runtime)
			down = false
		}
		changed, cancel := context.WithTimeout(ctx, logInterval) // an unreachable runtime stays in one state
		conn.WaitForStateChange(changed, state)
		cancel()
		if ctx.Err() != nil {
			s.Metrics.setConnected(false)
			return
		}
	}
}
