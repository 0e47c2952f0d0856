// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
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
)

// fakeRuntime is a small runtime: it answers what the tests ask and nothing else.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	sandbox chan *runtimeapi.RunPodSandboxRequest // what RunPodSandbox was asked for
	gone    chan error                            // the ends of contexts of ExecSync and GetContainerEvents
	events  chan string                           // further containers for GetContainerEvents
	done    chan int32                            // exit codes for ExecSync
	size    int                                   // of the reply to ListContainers
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
	r.sandbox <- q
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "id"}, nil
}

func (r *fakeRuntime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: strings.Repeat("x", r.size)}}}, nil
}

func (r *fakeRuntime) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.gone <- nil
	select {
	case code := <-r.done:
		return &runtimeapi.ExecSyncResponse{ExitCode: code}, nil
	case <-ctx.Done():
		r.gone <- ctx.Err()
		return nil, ctx.Err()
	}
}

func (r *fakeRuntime) StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s, err := status.New(codes.FailedPrecondition, "sandbox is busy").WithDetails(&errdetails.ErrorInfo{Reason: "BUSY"})
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

func (r *fakeRuntime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
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
			r.gone <- stream.Context().Err()
			return stream.Context().Err()
		}
	}
}

// unknown answers calls of services that are not of CRI: it sends back what it
// gets, method first.
func unknown(_ any, stream grpc.ServerStream) error {
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
		if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(append([]byte(method+" "), m.data.Materialize()...))}}); err != nil {
			return err
		}
	}
}

// mixedCodec is the usual one, and hands frames through.
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

// serveRuntime runs r on a socket of its own until the test ends or stop is called.
func serveRuntime(t testing.TB, path string, r *fakeRuntime) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := r.server()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s.Stop
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{
		sandbox: make(chan *runtimeapi.RunPodSandboxRequest, 1000), gone: make(chan error, 10),
		events: make(chan string, 10), done: make(chan int32, 1),
	}
}

func (r *fakeRuntime) server() *grpc.Server {
	s := grpc.NewServer(grpc.UnknownServiceHandler(unknown), grpc.ForceServerCodecV2(mixedCodec{encoding.GetCodecV2("proto")}), grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(64<<20))
	runtimeapi.RegisterRuntimeServiceServer(s, r)
	runtimeapi.RegisterImageServiceServer(s, r)
	return s
}

// pass is a hook that knows no pod.
func pass() *Hook {
	return &Hook{
		Lookup: func(context.Context, Sandbox) (policy.Pod, error) { return policy.Pod{}, ErrUnknownPod },
		Report: func(Report) {},
	}
}

// node is a runtime with a shim in front of it, and a way to each.
type node struct {
	runtime         *fakeRuntime
	direct, shimmed *grpc.ClientConn
	stopRuntime     func()
	shim            *Shim
	stopShim        func() error // waits for Run
	runtimePath     string
}

func newNode(t testing.TB, hook *Hook) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{runtime: newFakeRuntime(), runtimePath: filepath.Join(dir, "runtime.sock")}
	n.stopRuntime = serveRuntime(t, n.runtimePath, n.runtime)
	path := filepath.Join(dir, "shim", "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &Shim{Listener: l, Runtime: "unix://" + n.runtimePath}
	s.SetHook(hook)
	n.shim = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var err1 error
	stopped := false
	n.stopShim = func() error {
		if !stopped {
			stopped = true
			cancel()
			err1 = <-ended
		}
		return err1
	}
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

// connect connects as a kubelet does.
func connect(t testing.TB, endpoint string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(endpoint, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A call through the shim is the call without it: metadata both ways, trace,
// authority, deadline, and what the messages are called.
func TestUnaryCallIsUnchanged(t *testing.T) {
	for subtype, contentType := range map[string]string{"": "application/grpc", "proto": "application/grpc+proto"} {
		t.Run(contentType, func(t *testing.T) { testUnaryCall(t, subtype, contentType) })
	}
}

func testUnaryCall(t *testing.T, subtype, contentType string) {
	n := newNode(t, pass())
	type answer struct {
		Reply           *runtimeapi.VersionResponse
		Header, Trailer metadata.MD
	}
	call := func(c *grpc.ClientConn) answer {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x-bin", "\x01\xfe", "x-bin", "two")
		var a answer
		var err error
		a.Reply, err = runtimeapi.NewRuntimeServiceClient(c).Version(ctx, &runtimeapi.VersionRequest{}, grpc.Header(&a.Header), grpc.Trailer(&a.Trailer), grpc.CallContentSubtype(subtype))
		if err != nil {
			t.Fatal(err)
		}
		if back := strings.Join(a.Header["content-type"], ","); a.Reply.RuntimeApiVersion != contentType || back != contentType {
			t.Errorf("content type %q there and %q back, want %q", a.Reply.RuntimeApiVersion, back, contentType)
		}
		return a
	}
	if diff := cmp.Diff(call(n.direct), call(n.shimmed), protocmp.Transform()); diff != "" {
		t.Errorf("(-direct +through the shim):\n%s", diff)
	}
}

// So is an error, with its details, and a method that the runtime does not have.
func TestErrorsAreUnchanged(t *testing.T) {
	n := newNode(t, pass())
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
			return c.Invoke(t.Context(), "/runtime.v1.RuntimeService/FromTheFuture", &runtimeapi.StatusRequest{}, &runtimeapi.StatusResponse{})
		},
		"17 MiB asked": func(c *grpc.ClientConn) error {
			_, err := runtimeapi.NewRuntimeServiceClient(c).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: strings.Repeat("x", 17<<20)}})
			return err
		},
		"17 MiB answered": func(c *grpc.ClientConn) error {
			n.runtime.size = 17 << 20
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

// A deadline ends a call on both ends. The text tells which end saw it first, with a
// shim and without.
func TestDeadlineIsKept(t *testing.T) {
	n := newNode(t, pass())
	begun := false
	for timeout := 50 * time.Millisecond; !begun; timeout *= 2 { // on a busy machine the first may end on the way
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).ExecSync(ctx, &runtimeapi.ExecSyncRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("the kubelet sees %v", err)
		}
		select {
		case <-n.runtime.gone:
			begun = true
		default:
		}
	}
	if err := <-n.runtime.gone; err == nil {
		t.Error("the runtime sees no end")
	}
}

func TestLargeMessagesPass(t *testing.T) {
	n := newNode(t, pass())
	n.runtime.size = 16<<20 - 1024
	r, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || len(r.Containers[0].Id) != n.runtime.size {
		t.Errorf("nearly 16 MiB answered: %v", err)
	}
	n.runtime.size = 1
	large := &runtimeapi.ContainerFilter{Id: strings.Repeat("x", 16<<20-1024)}
	if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: large}); err != nil {
		t.Errorf("nearly 16 MiB asked: %v", err)
	}
}

// A service that nobody has heard of passes, in both directions at once.
func TestInventedServicePasses(t *testing.T) {
	n := newNode(t, pass())
	stream, err := n.shimmed.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/invented.v7.Service/Talk", grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"\xff\x00 no protocol buffer", ""} {
		if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer([]byte(word))}}); err != nil {
			t.Fatal(err)
		}
		var m frame
		if err := stream.RecvMsg(&m); err != nil {
			t.Fatal(err)
		}
		if got := m.data.Materialize(); !bytes.Equal(got, []byte("/invented.v7.Service/Talk "+word)) {
			t.Errorf("got %q", got)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var m frame
	if err := stream.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("end of the stream: %v", err)
	}
}

// When the kubelet gives up, the runtime hears of it.
func TestCancelReachesTheRuntime(t *testing.T) {
	n := newNode(t, pass())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-n.runtime.gone // it has begun
		cancel()
	}()
	if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).ExecSync(ctx, &runtimeapi.ExecSyncRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("the kubelet sees %v", err)
	}
	if err := <-n.runtime.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the runtime sees %v", err)
	}
}

// An event stream passes its header before its first event, and ends when the shim
// stops, although it has no end of its own.
func TestEventsEndWithTheShim(t *testing.T) {
	n := newNode(t, pass())
	stream, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if header, err := stream.Header(); err != nil || len(header["early"]) != 1 {
		t.Errorf("header %v, %v", header, err)
	}
	for _, want := range []string{"a", "b"} {
		if e, err := stream.Recv(); err != nil || e.ContainerId != want {
			t.Fatalf("event %v, %v", e, err)
		}
	}
	if err := n.stopShim(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
	if err := <-n.runtime.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the runtime sees %v", err)
	}
}

// A shim is alive as long as it takes up connections, whatever the runtime does.
func TestAlive(t *testing.T) {
	n := newNode(t, pass())
	n.stopRuntime()
	if err := n.shim.Alive(t.Context()); err != nil {
		t.Errorf("without a runtime: %v", err)
	}
	if err := n.stopShim(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.shim.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a shim: %v", err)
	}

	// A shim that hangs: the kernel takes the connection up, and nobody else.
	l, err := Listen(filepath.Join(t.TempDir(), "shim.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := (&Shim{Listener: l}).Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a shim that hangs: %v", err)
	}
}

// When the runtime goes, an event stream ends as it does without a shim.
func TestEventsEndWithTheRuntime(t *testing.T) {
	n := newNode(t, pass())
	var streams []grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]
	for _, c := range []*grpc.ClientConn{n.direct, n.shimmed} {
		stream, err := runtimeapi.NewRuntimeServiceClient(c).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		streams = append(streams, stream)
	}
	n.stopRuntime()
	_, direct := streams[0].Recv()
	_, shimmed := streams[1].Recv()
	if status.Code(direct) != codes.Unavailable || status.Code(shimmed) != codes.Unavailable {
		t.Errorf("directly %v, through the shim %v", direct, shimmed)
	}
}

// A shim that comes up before its runtime fails calls as the missing runtime does,
// and passes them when it is there.
func TestRuntimeComesLater(t *testing.T) {
	n := newNode(t, pass())
	n.stopRuntime()
	call := func(c *grpc.ClientConn) *status.Status {
		_, err := runtimeapi.NewRuntimeServiceClient(c).Version(t.Context(), &runtimeapi.VersionRequest{})
		return status.Convert(err)
	}
	direct, shimmed := call(n.direct), call(n.shimmed)
	if diff := cmp.Diff(direct.Proto(), shimmed.Proto(), protocmp.Transform()); diff != "" || direct.Code() != codes.Unavailable {
		t.Errorf("(-direct +through the shim):\n%s", diff)
	}
	serveRuntime(t, n.runtimePath, n.runtime)
	answers(t, runtimeapi.NewRuntimeServiceClient(n.shimmed))
}

// A runtime that is away fails calls at once, as it does without a shim; when it is
// back, calls work again.
func TestRuntimeAwayAndBack(t *testing.T) {
	n := newNode(t, pass())
	c := runtimeapi.NewRuntimeServiceClient(n.shimmed)
	if _, err := c.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
		t.Fatal(err)
	}
	n.stopRuntime()
	if _, err := c.Version(t.Context(), &runtimeapi.VersionRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without a runtime: %v", err)
	}
	serveRuntime(t, n.runtimePath, n.runtime)
	answers(t, c)
}

// answers returns when a call of c succeeds.
func answers(t *testing.T, c runtimeapi.RuntimeServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		_, err := c.Version(ctx, &runtimeapi.VersionRequest{})
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("the runtime is back: %v", err)
		}
	}
}
