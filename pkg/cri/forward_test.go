// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// fakeRuntime implements the few methods that the tests call.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	sandboxes chan *runtimeapi.RunPodSandboxRequest // the requests received
	started   chan struct{}                         // gets a value when ExecSync starts
	ended     chan error                            // context errors of ExecSync and GetContainerEvents
	events    chan string                           // container IDs for GetContainerEvents, after "a" and "b"
	exitCodes chan int32                            // for ExecSync
	replySize int                                   // of ListContainers
}

func (r *fakeRuntime) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	deadline, _ := ctx.Deadline()
	grpc.SetHeader(ctx, metadata.Pairs("header", "h", "header-bin", "\x00\xff"))
	grpc.SetTrailer(ctx, metadata.Pairs("trailer", "t"))
	return &runtimeapi.VersionResponse{
		Version:           strings.Join(md["traceparent"], ","),
		RuntimeName:       strings.Join(md[":authority"], ","),
		RuntimeVersion:    fmt.Sprintf("%q %v", md["x-bin"], time.Until(deadline).Round(time.Minute)),
		RuntimeApiVersion: strings.Join(md["content-type"], ","),
	}, nil
}

func (r *fakeRuntime) RunPodSandbox(_ context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	r.sandboxes <- q
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "id"}, nil
}

func (r *fakeRuntime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: strings.Repeat("x", r.replySize)}}}, nil
}

func (r *fakeRuntime) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.started <- struct{}{}
	select {
	case code := <-r.exitCodes:
		return &runtimeapi.ExecSyncResponse{ExitCode: code}, nil
	case <-ctx.Done():
		r.ended <- ctx.Err()
		return nil, ctx.Err()
	}
}

func (r *fakeRuntime) StopPodSandbox(_ context.Context, q *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if q.PodSandboxId == "idle" {
		return &runtimeapi.StopPodSandboxResponse{}, nil
	}
	s, err := status.New(codes.FailedPrecondition, "sandbox is busy").WithDetails(&errdetails.ErrorInfo{Reason: "BUSY"})
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

func (r *fakeRuntime) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if err := stream.SendHeader(metadata.Pairs("early", "yes")); err != nil {
		return err
	}
	for _, id := range []string{"a", "b"} {
		if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: id}); err != nil {
			return err
		}
	}
	for {
		select {
		case id := <-r.events:
			if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: id}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			r.ended <- stream.Context().Err()
			return stream.Context().Err()
		}
	}
}

// echoUnknown handles services that are not part of CRI. It returns each message after the
// name of the method.
func echoUnknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	if !strings.HasPrefix(method, "/invented.") {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	for {
		var m frame
		if err := stream.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(
			&frame{mem.BufferSlice{mem.SliceBuffer(append([]byte(method+" "), m.data.Materialize()...))}}); err != nil {
			return err
		}
	}
}

// mixedCodec is the codec of gRPC, except that it passes frames through.
type mixedCodec struct{ encoding.CodecV2 }

func (c mixedCodec) Marshal(v any) (mem.BufferSlice, error) {
	if _, raw := v.(*frame); raw {
		return rawCodec{}.Marshal(v)
	}
	return c.CodecV2.Marshal(v)
}

func (c mixedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, raw := v.(*frame); raw {
		return rawCodec{}.Unmarshal(data, v)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// serveRuntime serves r at path until the test ends or stop is called.
func serveRuntime(t testing.TB, path string, r *fakeRuntime) (stop func()) {
	t.Helper()
	l := must.Get(net.Listen("unix", path))(t)
	s := r.server()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s.Stop
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{
		sandboxes: make(chan *runtimeapi.RunPodSandboxRequest, 1000),
		started:   make(chan struct{}, 10), ended: make(chan error, 10),
		events: make(chan string, 10), exitCodes: make(chan int32, 1),
	}
}

func (r *fakeRuntime) server() *grpc.Server {
	s := grpc.NewServer(grpc.UnknownServiceHandler(echoUnknown),
		grpc.ForceServerCodecV2(mixedCodec{encoding.GetCodecV2("proto")}), grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(64<<20))
	runtimeapi.RegisterRuntimeServiceServer(s, r)
	runtimeapi.RegisterImageServiceServer(s, r)
	return s
}

// passHook returns a hook that finds no pod, so it changes no request.
func passHook() *Hook {
	return &Hook{
		Lookup: func(context.Context, Sandbox) (policy.Pod, error) { return policy.Pod{}, ErrUnknownPod },
		Report: func(Report) {},
	}
}

// node is a runtime with a shim in front of it, and a connection to each.
type node struct {
	runtime         *fakeRuntime
	runtimePath     string
	stopRuntime     func()
	shim            *Shim
	stopShim        func() error // waits for Run
	direct, shimmed *grpc.ClientConn
}

func newNode(t testing.TB, hook *Hook) *node {
	t.Helper()
	runtime, path := newFakeRuntime(), filepath.Join(t.TempDir(), "runtime.sock")
	stop := serveRuntime(t, path, runtime)
	n := newNodeAt(t, path, hook)
	n.runtime, n.stopRuntime = runtime, stop
	return n
}

// newNodeAt returns a shim in front of runtimePath, where a runtime need not have started.
func newNodeAt(t testing.TB, runtimePath string, hook *Hook) *node {
	t.Helper()
	n := &node{runtimePath: runtimePath}
	path := filepath.Join(t.TempDir(), "shim", "shim.sock")
	l := must.Get(Listen(path))(t)
	s := &Shim{Listener: l, Runtime: "unix://" + n.runtimePath, Metrics: NewMetrics(nil), Log: slog.New(slog.DiscardHandler)}
	s.SetHook(hook)
	n.shim = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	n.stopShim = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := n.stopShim(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	n.direct, n.shimmed = client(t, n.runtimePath), client(t, path)
	return n
}

// client connects to the socket at path.
func client(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	return connect(t, "unix://"+path)
}

// connect connects to endpoint with the options of a kubelet.
func connect(t testing.TB, endpoint string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c := must.Get(grpc.NewClient(endpoint, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))...))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestForwardUnary_SameAsDirect compares a call through the shim with a direct call:
// metadata in both directions, trace, authority, deadline and content type.
func TestForwardUnary_SameAsDirect(t *testing.T) {
	for subtype, contentType := range map[string]string{"": "application/grpc", "proto": "application/grpc+proto"} {
		t.Run(contentType, func(t *testing.T) { checkUnaryCall(t, subtype, contentType) })
	}
}

func checkUnaryCall(t *testing.T, subtype, contentType string) {
	n := newNode(t, passHook())
	type result struct {
		Reply           *runtimeapi.VersionResponse
		Header, Trailer metadata.MD
	}
	call := func(c *grpc.ClientConn) result {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent",
			"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x-bin", "\x01\xfe", "x-bin", "two")
		var r result
		var err error
		r.Reply, err = runtimeapi.NewRuntimeServiceClient(c).Version(ctx, &runtimeapi.VersionRequest{},
			grpc.Header(&r.Header), grpc.Trailer(&r.Trailer), grpc.CallContentSubtype(subtype))
		if err != nil {
			t.Fatal(err)
		}
		if back := strings.Join(r.Header["content-type"], ","); r.Reply.RuntimeApiVersion != contentType || back != contentType {
			t.Errorf("content type %q of the request and %q of the reply, want %q", r.Reply.RuntimeApiVersion, back, contentType)
		}
		return r
	}
	if diff := cmp.Diff(call(n.direct), call(n.shimmed), protocmp.Transform()); diff != "" {
		t.Errorf("(-direct +through the shim):\n%s", diff)
	}
}

// TestForward_SameErrorAsDirect compares errors, with their details.
func TestForward_SameErrorAsDirect(t *testing.T) {
	n := newNode(t, passHook())
	for name, call := range map[string]func(c *grpc.ClientConn) error{
		"status with details": func(c *grpc.ClientConn) error {
			_, err := runtimeapi.NewRuntimeServiceClient(c).StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{})
			return err
		},
		"unimplemented method": func(c *grpc.ClientConn) error {
			_, err := runtimeapi.NewRuntimeServiceClient(c).Status(t.Context(), &runtimeapi.StatusRequest{})
			return err
		},
		"unknown method of a known service": func(c *grpc.ClientConn) error {
			return c.Invoke(t.Context(), "/runtime.v1.RuntimeService/FromTheFuture",
				&runtimeapi.StatusRequest{}, &runtimeapi.StatusResponse{})
		},
		"request of 17 MiB": func(c *grpc.ClientConn) error {
			_, err := runtimeapi.NewRuntimeServiceClient(c).ListContainers(t.Context(),
				&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: strings.Repeat("x", 17<<20)}})
			return err
		},
		"reply of 17 MiB": func(c *grpc.ClientConn) error {
			n.runtime.replySize = 17 << 20
			_, err := runtimeapi.NewRuntimeServiceClient(c).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			direct, shimmed := status.Convert(call(n.direct)), status.Convert(call(n.shimmed))
			if diff := cmp.Diff(direct.Proto(), shimmed.Proto(), protocmp.Transform()); diff != "" || direct.Code() == codes.OK {
				t.Errorf("(-direct +through the shim):\n%s", diff)
			}
		})
	}
}

// TestForwardStream_UnknownService calls a service that is not part of CRI.
func TestForwardStream_UnknownService(t *testing.T) {
	n := newNode(t, passHook())
	stream := must.Get(n.shimmed.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/invented.v7.Service/Talk", grpc.ForceCodecV2(rawCodec{})))(t)
	for _, word := range []string{"\xff\x00 no protocol buffer", ""} {
		must.Succeed(t, stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer([]byte(word))}}))
		var m frame
		must.Succeed(t, stream.RecvMsg(&m))
		if got := m.data.Materialize(); !bytes.Equal(got, []byte("/invented.v7.Service/Talk "+word)) {
			t.Errorf("got %q", got)
		}
	}
	must.Succeed(t, stream.CloseSend())
	var m frame
	if err := stream.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("end of the stream: %v", err)
	}
}

// TestShim_Alive checks that a shim is alive as long as it accepts connections, with the
// runtime up or down.
func TestShim_Alive(t *testing.T) {
	n := newNode(t, passHook())
	n.stopRuntime()
	if err := n.shim.Alive(t.Context()); err != nil {
		t.Errorf("runtime down: %v", err)
	}
	must.Succeed(t, n.stopShim())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.shim.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shim stopped: %v", err)
	}

	// If the shim hangs, only the kernel accepts the connection.
	l := must.Get(Listen(filepath.Join(t.TempDir(), "shim.sock")))(t)
	defer l.Close()
	if err := (&Shim{Listener: l}).Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shim hangs: %v", err)
	}
}

// TestForwardStream_RuntimeStops checks that an event stream ends as it does without a shim.
func TestForwardStream_RuntimeStops(t *testing.T) {
	n := newNode(t, passHook())
	var streams []grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]
	for _, c := range []*grpc.ClientConn{n.direct, n.shimmed} {
		stream := must.Get(runtimeapi.NewRuntimeServiceClient(c).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{}))(t)
		for range 2 {
			must.Get(stream.Recv())(t)
		}
		streams = append(streams, stream)
	}
	n.stopRuntime()
	_, direct := streams[0].Recv()
	_, shimmed := streams[1].Recv()
	if status.Code(direct) != codes.Unavailable || status.Code(shimmed) != codes.Unavailable {
		t.Errorf("direct %v, through the shim %v", direct, shimmed)
	}
}

// TestForward_RuntimeRestarts: while the runtime does not run, a call fails as a direct one does. It works when the
// runtime has started, and again after a restart.
func TestForward_RuntimeRestarts(t *testing.T) {
	n := newNodeAt(t, filepath.Join(t.TempDir(), "runtime.sock"), passHook())
	call := func(c *grpc.ClientConn) *status.Status {
		_, err := runtimeapi.NewRuntimeServiceClient(c).Version(t.Context(), &runtimeapi.VersionRequest{})
		return status.Convert(err)
	}
	direct, shimmed := call(n.direct), call(n.shimmed)
	if diff := cmp.Diff(direct.Proto(), shimmed.Proto(), protocmp.Transform()); diff != "" || direct.Code() != codes.Unavailable {
		t.Errorf("(-direct +through the shim):\n%s", diff)
	}
	for range 2 {
		stop := serveRuntime(t, n.runtimePath, newFakeRuntime())
		waitUntilServing(t, runtimeapi.NewRuntimeServiceClient(n.shimmed))
		stop()
		if got := call(n.shimmed); got.Code() != codes.Unavailable {
			t.Errorf("runtime down: %v", got)
		}
	}
}

// waitUntilServing calls the runtime until a call succeeds.
func waitUntilServing(t *testing.T, c runtimeapi.RuntimeServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := c.Version(ctx, &runtimeapi.VersionRequest{})
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("after the restart: %v", err)
		}
	}
}

// TestForwardUnary_Notify: Started and Stopped are called for the requests that the runtime has answered
// without an error, and not for others.
func TestForwardUnary_Notify(t *testing.T) {
	n := newNode(t, passHook())
	must.Succeed(t, n.stopShim())
	conn := must.Get(dial("unix://" + n.runtimePath))(t)
	defer conn.Close()
	var got []string
	s := &Shim{
		Started: func(id string, r Report) {
			got = append(got, "started "+id+" of "+r.Sandbox.UID+": "+string(r.Outcome))
		},
		Stopped: func(id string) { got = append(got, "stopped "+id) },
	}
	kubelet, stop := serveInMemory(t, s, conn)
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}}
	r, err := kubelet.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil || r.PodSandboxId != "id" {
		t.Errorf("%v, %v", r, err)
	}
	for _, id := range []string{"busy", "idle"} {
		_, err := kubelet.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		if (err == nil) != (id == "idle") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"started id of u: unknown_pod", "stopped idle"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
