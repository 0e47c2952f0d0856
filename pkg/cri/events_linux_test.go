// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// subscriptions are the event streams of containerd: a stream that its client has cancelled still
// gets the next event, and events wait for a subscription only if there is none.
type subscriptions struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	mu      sync.Mutex
	all     map[chan string]bool
	waiting []string
	count   int // of all so far
	ended   chan struct{}
}

func (s *subscriptions) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{}, nil
}

func (s *subscriptions) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	events := make(chan string, 10*maxHeldEvents)
	s.mu.Lock()
	for _, id := range s.waiting {
		events <- id
	}
	s.waiting = nil
	s.all[events] = true
	s.count++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.all, events)
		s.mu.Unlock()
	}()
	for {
		select { // not the context of the stream
		case id := <-events:
			if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: id}); err != nil {
				return err
			}
		case <-s.ended:
			return nil
		}
	}
}

func (s *subscriptions) publish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		s.waiting = append(s.waiting, id)
	}
	for events := range s.all {
		events <- id
	}
}

// newSubscriptions serves a runtime.
func newSubscriptions(t *testing.T) (s *subscriptions, path string) {
	t.Helper()
	s = &subscriptions{all: map[chan string]bool{}, ended: make(chan struct{})}
	path = filepath.Join(t.TempDir(), "runtime.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		close(s.ended)
		server.Stop()
	})
	return s, path
}

// receiveEvent receives events until want arrives.
func receiveEvent(t *testing.T, stream grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], want string) {
	t.Helper()
	late := time.AfterFunc(2*time.Minute, func() { panic("no event " + want) })
	defer late.Stop()
	for {
		e, err := stream.Recv()
		if err != nil {
			t.Fatalf("waiting for event %q: %v", want, err)
		}
		if e.ContainerId == want {
			return
		}
	}
}

// TestHandover_Events: an event after the end of the kubelet's stream, and before it opens another
// one, arrives in that one. It is the event that the kubelet does not learn from its list.
func TestHandover_Events(t *testing.T) {
	runtime, path := newSubscriptions(t)
	g := newGenerations(t, "unix://"+path, listenAt(t))
	kubelet := runtimeapi.NewRuntimeServiceClient(client(t, g.path))
	open := func() grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse] {
		stream, err := kubelet.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	stream := open()
	runtime.publish("first")
	receiveEvent(t, stream, "first")
	for i := range 10 {
		if err := RequestHandover(t.Context(), g.path); err != nil {
			t.Fatal(err)
		}
		for err := error(nil); status.Code(err) != codes.Unavailable; _, err = stream.Recv() {
			if err != nil {
				t.Fatal(err)
			}
		}
		poll.Until(t, "the subscription of the new process",
			func() bool { runtime.mu.Lock(); defer runtime.mu.Unlock(); return runtime.count == i+2 })
		event := fmt.Sprint("between the streams ", i)
		runtime.publish(event)
		stream = open()
		receiveEvent(t, stream, event)
		runtime.publish(event + ", later")
		receiveEvent(t, stream, event+", later")
	}
}

// TestHandover_EventsWithoutClient: of a stream whose client does not come back, events are held
// up to the limits; then the next client gets an error, after which it lists all pods.
func TestHandover_EventsWithoutClient(t *testing.T) {
	for name, tt := range map[string]struct {
		events, size int
		want         codes.Code
	}{
		"as many as are held": {maxHeldEvents, 1, codes.OK},
		"one more":            {maxHeldEvents + 1, 1, codes.Unavailable},
		"large ones":          {9, 1 << 20, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			runtime, path := newSubscriptions(t)
			conn := connect(t, "unix://"+path, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
			held := heldStreams{timeout: time.Hour}
			if err := held.open(t.Context(), conn, 1); err != nil {
				t.Fatal(err)
			}
			poll.Until(t, "a subscription", func() bool { runtime.mu.Lock(); defer runtime.mu.Unlock(); return len(runtime.all) == 1 })
			for range tt.events {
				runtime.publish(strings.Repeat("e", tt.size))
			}
			s := held.streams[0]
			poll.Until(t, "the events", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.events) == tt.events || s.err != nil
			})
			if held.take(t.Context()) != s || held.take(t.Context()) != nil || held.count() != 0 {
				t.Fatal("not one stream")
			}
			var got codes.Code
			for range tt.events {
				var m frame
				if err := s.RecvMsg(&m); err != nil {
					got = status.Code(err)
					break
				}
			}
			if got != tt.want {
				t.Errorf("ends with %v, want %v", got, tt.want)
			}
		})
	}
}

// TestHeldStream_Expires: a stream whose client does not come back ends.
func TestHeldStream_Expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &heldStream{cancel: cancel}
		s.changed.L = &s.mu
		held := heldStreams{streams: []*heldStream{s}}
		time.AfterFunc(heldTimeout, s.expire)
		if held.count() != 1 {
			t.Error("it is not counted")
		}
		time.Sleep(heldTimeout + time.Nanosecond)
		synctest.Wait()
		if ctx.Err() == nil || held.count() != 0 || held.take(t.Context()) != nil {
			t.Errorf("it is there after %v", heldTimeout)
		}
	})
}
