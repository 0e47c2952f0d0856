// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"path"
	"slices"
	"strings"
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

// errDraining ends a stream that would otherwise keep the server from stopping. The
// kubelet handles it like a restart of the runtime: it connects again.
var errDraining = status.Error(codes.Unavailable, "the shim is stopping")

// handle forwards a call of any service and method to the runtime. It is a grpc.StreamHandler.
func (s *Shim) handle(_ any, kubelet grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(kubelet)
	if !ok {
		return status.Error(codes.Internal, "stream without a method")
	}
	s.calls.Add(1)
	defer s.calls.Add(-1)
	forward := s.forwardStream
	if isUnary(method) {
		forward = s.forwardUnary
	}
	err := forward(method, kubelet)
	s.Metrics.countCall(method, err)
	return err
}

// forwardUnary forwards a call with one message each way. forwardStream could forward it as well,
// with one more goroutine and twice as many socket writes.
func (s *Shim) forwardUnary(method string, kubelet grpc.ServerStream) error {
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
		message := request.data.Materialize()
		request.data.Free()
		edited, report, err := s.hook.Load().edit(kubelet.Context(), message, s.Metrics)
		if err != nil {
			return err
		}
		request.data = mem.BufferSlice{mem.SliceBuffer(edited)}
		if s.Started != nil {
			notify = func() { s.Started(readID(reply.data), report) }
		}
	case method == stopPodSandbox && s.Stopped != nil:
		id := readID(request.data)
		notify = func() { s.Stopped(id) }
	}
	var header, trailer metadata.MD
	err := s.runtime.Invoke(outgoingContext(kubelet.Context()), method, &request, &reply,
		grpc.Header(&header), grpc.Trailer(&trailer), grpc.CallContentSubtype(contentSubtype(kubelet.Context())))
	kubelet.SetTrailer(withoutReserved(trailer))
	if header != nil {
		s.answered.Store(true)
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
	_ = reader{1: textField(&id)}.read(message.Materialize()) // the runtime reports what is malformed
	return id
}

// forwardStream forwards a call with any number of messages in both directions.
func (s *Shim) forwardStream(method string, kubelet grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(outgoingContext(kubelet.Context()))
	defer cancel(nil)
	runtime, err := s.runtime.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.CallContentSubtype(contentSubtype(kubelet.Context())))
	if err != nil {
		return err
	}
	if path.Base(method) == containerEvents {
		go func() {
			select {
			case <-s.draining:
				cancel(errDraining)
			case <-ctx.Done():
			}
		}()
	}
	go copyRequests(cancel, kubelet, runtime)
	err = s.copyReplies(kubelet, runtime)
	kubelet.SetTrailer(withoutReserved(runtime.Trailer()))
	if errors.Is(context.Cause(ctx), errDraining) {
		return errDraining
	}
	return err
}

// copyRequests sends the kubelet's messages to the runtime. If sending fails, the stream
// has ended and copyReplies receives its status.
func copyRequests(cancel context.CancelCauseFunc, kubelet grpc.ServerStream, runtime grpc.ClientStream) {
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
func (s *Shim) copyReplies(kubelet grpc.ServerStream, runtime grpc.ClientStream) error {
	if header, err := runtime.Header(); err == nil && header != nil {
		s.answered.Store(true)
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

// containerEvents is the method whose calls may last as long as the runtime runs. The lists whose names
// begin with Stream are finite (KEP-5825).
const containerEvents = "GetContainerEvents"

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

// methods holds the methods of CRI v1, by the path of their service. The generated package has them too, but
// linking it costs each shim 200 kB of memory.
var methods = map[string][]string{
	"/runtime.v1.RuntimeService/": {
		"Version", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
		"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus",
		"UpdateContainerResources", "ReopenContainerLog", "ExecSync", "Exec", "Attach", "PortForward",
		"ContainerStats", "ListContainerStats", "PodSandboxStats", "ListPodSandboxStats", "UpdateRuntimeConfig",
		"Status", "CheckpointContainer", "CheckpointPod", "RestorePod", "ListMetricDescriptors",
		"ListPodSandboxMetrics", "RuntimeConfig", "UpdatePodSandboxResources", "StreamPodSandboxes",
		"StreamContainers", "StreamContainerStats", "StreamPodSandboxStats", "GetContainerEvents",
		"StreamPodSandboxMetrics",
	},
	"/runtime.v1.ImageService/": {
		"ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo", "StreamImages",
	},
}

// isKnown reports whether a method is not one of a newer CRI, or of another service.
func isKnown(method string) bool {
	service, name := path.Split(method)
	return slices.Contains(methods[service], name)
}

// isUnary reports whether a call has one message each way, as far as that is known: those of the other methods
// of CRI have any number.
func isUnary(method string) bool {
	name := path.Base(method)
	return isKnown(method) && !strings.HasPrefix(name, "Stream") && name != containerEvents
}

// logInterval is the interval at which a runtime that stays unreachable is logged.
const logInterval = time.Minute

// dialRuntime connects to the runtime. It compares the sockets at every attempt, because a link
// may be replaced while the shim runs.
func (s *Shim) dialRuntime(ctx context.Context, _ string) (conn net.Conn, err error) {
	defer func() { s.dialed.Store(&err) }()
	socket := strings.TrimPrefix(s.Runtime, "unix://")
	if err := CheckEndpoints(s.Listener.Addr().String(), socket); err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", socket)
}

// watchRuntime keeps the metric of the connection up to date until ctx ends. While the runtime
// is unreachable it logs the reason once a minute.
func (s *Shim) watchRuntime(ctx context.Context, conn *grpc.ClientConn) {
	var logged time.Time
	down := false // was logged
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect() // a wrong endpoint is logged before the first call
		}
		connected := 0.0
		if state == connectivity.Ready {
			connected = 1
		}
		s.Metrics.connected.Set(connected)
		switch {
		case state == connectivity.TransientFailure && time.Since(logged) >= logInterval:
			err := errors.New("connected, but the runtime has sent no data yet")
			if last := s.dialed.Load(); last != nil {
				err = cmp.Or(*last, err)
			}
			s.Log.Warn("container runtime unreachable, CRI calls fail", "endpoint", s.Runtime, "error", err)
			logged, down = time.Now(), true
		case state == connectivity.Ready && down:
			s.Log.Info("container runtime connected", "endpoint", s.Runtime)
			down = false
		}
		changed, cancel := context.WithTimeout(ctx, logInterval) // an unreachable runtime stays in one state
		conn.WaitForStateChange(changed, state)
		cancel()
		if ctx.Err() != nil {
			s.Metrics.connected.Set(0)
			return
		}
	}
}
