// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// runPodSandbox is the one method whose request is looked into.
const runPodSandbox = "/runtime.v1.RuntimeService/RunPodSandbox"

// forwarder passes calls on to the runtime, whatever their service and method.
type forwarder struct {
	runtime grpc.ClientConnInterface
	hook    *atomic.Pointer[Hook] // edits RunPodSandbox
	drain   <-chan struct{}       // closes when streams without an end are to end
	metrics *Metrics

	answered *atomic.Bool // set by the first message or header of the runtime
}

// errDraining ends a stream that would otherwise keep the server from stopping.
// The kubelet takes it for a runtime that restarts, and comes back.
var errDraining = status.Error(codes.Unavailable, "the shim is stopping")

// handle is a grpc.StreamHandler.
func (f *forwarder) handle(_ any, kubelet grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(kubelet)
	if !ok {
		return status.Error(codes.Internal, "a stream without a method")
	}
	forward := f.stream
	if methods[method] == unary {
		forward = f.call
	}
	err := forward(method, kubelet)
	f.metrics.request(method, err)
	return err
}

// call passes a call that has one message each way. As a stream it would pass too;
// knowing its shape saves a goroutine and half of the writes to sockets.
func (f *forwarder) call(method string, kubelet grpc.ServerStream) error {
	var request, reply frame
	switch err := kubelet.RecvMsg(&request); {
	case errors.Is(err, io.EOF):
		return status.Error(codes.Internal, "a call without a request")
	case err != nil:
		return err
	}
	if method == runPodSandbox {
		f.editRequest(kubelet.Context(), &request)
	}
	var header, trailer metadata.MD
	err := f.runtime.Invoke(outgoing(kubelet.Context()), method, &request, &reply,
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
	return kubelet.SendMsg(&reply)
}

// editRequest replaces request with what the hook makes of it.
func (f *forwarder) editRequest(ctx context.Context, request *frame) {
	message := request.data.Materialize()
	request.data.Free()
	request.data = mem.BufferSlice{mem.SliceBuffer(f.hook.Load().edit(ctx, message))}
}

// stream passes a call with any number of messages in both directions.
func (f *forwarder) stream(method string, kubelet grpc.ServerStream) error {
	ctx, cancel := context.WithCancelCause(outgoing(kubelet.Context()))
	defer cancel(nil)
	runtime, err := f.runtime.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.CallContentSubtype(contentSubtype(kubelet.Context())))
	if err != nil {
		return err
	}
	if endless(method) {
		go f.endWithDrain(ctx, cancel)
	}
	go f.up(cancel, kubelet, runtime)
	err = f.down(kubelet, runtime)
	kubelet.SetTrailer(withoutReserved(runtime.Trailer()))
	if errors.Is(context.Cause(ctx), errDraining) {
		return errDraining
	}
	return err
}

// up passes the kubelet's messages to the runtime. An error of sending is the
// runtime's to report, and down hears of it.
func (f *forwarder) up(cancel context.CancelCauseFunc, kubelet grpc.ServerStream, runtime grpc.ClientStream) {
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

// down passes the runtime's header, messages and status to the kubelet.
func (f *forwarder) down(kubelet grpc.ServerStream, runtime grpc.ClientStream) error {
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

// endless tells whether a call may stay open for as long as the runtime lives.
func endless(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return name == "GetContainerEvents" || strings.HasPrefix(name, "Stream")
}

func (f *forwarder) endWithDrain(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-f.drain:
		cancel(errDraining)
	case <-ctx.Done():
	}
}

// outgoing returns ctx with the metadata of the kubelet's call for the runtime.
func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, withoutReserved(md))
}

// contentSubtype returns what the kubelet calls the encoding of its messages: "" for
// application/grpc, "proto" for application/grpc+proto. gRPC answers with the same.
func contentSubtype(ctx context.Context) string {
	for _, contentType := range metadata.ValueFromIncomingContext(ctx, "content-type") {
		if _, subtype, found := strings.Cut(contentType, "+"); found {
			return subtype
		}
	}
	return ""
}

// withoutReserved returns md without what gRPC itself adds to each call.
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
