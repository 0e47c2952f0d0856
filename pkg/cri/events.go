// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The methods of an event stream. GetEventsRequest has no fields, so that all streams are equal.
const (
	getContainerEvents = "/runtime.v1.RuntimeService/GetContainerEvents"
	version            = "/runtime.v1.RuntimeService/Version"
)

const (
	// maxEventStreams is the largest number of streams that are opened in advance. The kubelet
	// has one, `crictl events` another.
	maxEventStreams = 4

	// maxHeldEvents and maxHeldBytes limit the events of a stream that has no client yet. An
	// event has the labels and annotations of a pod, which its author chooses.
	maxHeldEvents = 1024
	maxHeldBytes  = 8 << 20

	// heldTimeout is how long a stream waits for its client. A kubelet opens its stream again
	// when it has listed all pods.
	heldTimeout = time.Minute

	// subscribeTimeout limits the wait for the runtime before the process serves.
	subscribeTimeout = time.Second
)

// errEventsLost ends a stream that exceeds maxHeldEvents or maxHeldBytes. The kubelet then lists all
// pods again.
var errEventsLost = status.Error(codes.Unavailable, "more events than the shim holds arrived during its handover")

// heldStreams are event streams of the runtime that are opened before their clients request
// them. At a handover the previous process ends its streams. The kubelet then lists all pods and
// opens another stream, and an event between these two would be lost: containerd gives it to the
// subscription of the stream that has ended (containerd/internal/eventq).
type heldStreams struct {
	timeout time.Duration // of open; 0: subscribeTimeout

	mu      sync.Mutex
	streams []*heldStream
}

// open opens up to n streams, which end with ctx. After an error some streams may be missing, or may
// miss events: their clients get new streams, as after a restart of the runtime.
func (h *heldStreams) open(ctx context.Context, runtime grpc.ClientConnInterface, n int) error {
	if n == 0 {
		return nil
	}
	connecting, stop := context.WithTimeout(ctx, cmp.Or(h.timeout, subscribeTimeout))
	defer stop()
	if err := runtime.Invoke(connecting, version, &frame{}, &frame{}); err != nil {
		return err
	}
	for range min(n, maxEventStreams) {
		s, err := newHeldStream(ctx, runtime)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.streams = append(h.streams, s)
		h.mu.Unlock()
		time.AfterFunc(heldTimeout, s.expire)
	}
	// The runtime does not confirm a subscription, but receives this call after those of the streams.
	return runtime.Invoke(connecting, version, &frame{}, &frame{})
}

// take returns a stream for a client whose call ends with ctx; nil if there is none.
func (h *heldStreams) take(ctx context.Context) *heldStream {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.streams) > 0 {
		s := h.streams[0]
		h.streams = h.streams[1:]
		if s.take() {
			context.AfterFunc(ctx, s.cancel)
			return s
		}
	}
	return nil
}

// count returns the number of streams without a client that have not expired.
func (h *heldStreams) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.streams {
		if s.isFree() {
			n++
		}
	}
	return n
}

// heldStream is a stream of the runtime that keeps its events until it has a client.
type heldStream struct {
	grpc.ClientStream
	cancel context.CancelFunc

	mu      sync.Mutex
	changed sync.Cond // of the fields below, with mu
	events  []frame
	size    int   // bytes of events
	taken   bool  // it has a client, or has expired
	err     error // of the stream, after events
}

func newHeldStream(ctx context.Context, runtime grpc.ClientConnInterface) (*heldStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := runtime.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, getContainerEvents)
	if err == nil {
		if err = stream.SendMsg(&frame{}); err == nil {
			err = stream.CloseSend()
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &heldStream{ClientStream: stream, cancel: cancel}
	s.changed.L = &s.mu
	context.AfterFunc(ctx, func() { s.end(status.FromContextError(ctx.Err()).Err()) })
	go s.receive()
	return s, nil
}

// end ends the stream with err, unless it has ended.
func (s *heldStream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.cancel()
}

// receive receives events until the stream ends.
func (s *heldStream) receive() {
	for {
		var m frame
		err := s.ClientStream.RecvMsg(&m)
		if err == nil {
			err = s.keep(m)
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// keep queues an event for RecvMsg. If the stream has a client, keep waits until the client has
// received all events, so that the runtime does not send faster than the client receives.
func (s *heldStream) keep(m frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += m.data.Len(); !s.taken && (len(s.events) == maxHeldEvents || s.size > maxHeldBytes) {
		return errEventsLost
	}
	s.events = append(s.events, m)
	s.changed.Broadcast()
	for s.taken && len(s.events) > 0 && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// take reports whether the stream can have a client; from then on it has one.
func (s *heldStream) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := !s.taken
	s.taken = true
	return free
}

func (s *heldStream) isFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.taken
}

// expire ends the stream if it has no client.
func (s *heldStream) expire() {
	if s.take() {
		s.cancel()
	}
}

// RecvMsg returns the events that were held, and then those that arrive.
func (s *heldStream) RecvMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.events) == 0 && s.err == nil {
		s.changed.Wait()
	}
	if len(s.events) == 0 {
		return s.err
	}
	*m.(*frame) = s.events[0]
	s.events = s.events[1:]
	s.changed.Broadcast()
	return nil
}

// SendMsg does nothing: the request was sent.
func (s *heldStream) SendMsg(any) error { return nil }

// CloseSend does nothing: the request was sent.
func (s *heldStream) CloseSend() error { return nil }
