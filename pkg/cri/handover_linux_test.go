// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// generations are shims that hand over to each other in one process.
type generations struct {
	t       *testing.T
	path    string
	runtime string

	current *Listener
	shim    *Shim // at current
	ended   sync.WaitGroup
	ctx     context.Context // of all
}

// newGenerations starts a shim in front of the runtime at an endpoint.
func newGenerations(t *testing.T, runtime string, open func(path string) *Listener) *generations {
	t.Helper()
	g := &generations{t: t, path: filepath.Join(t.TempDir(), "shim.sock"), runtime: runtime}
	var stop context.CancelFunc
	g.ctx, stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		g.ended.Wait()
	})
	g.current = open(g.path)
	g.serve(g.current)
	return g
}

// serve runs a shim that hands over to another one.
func (g *generations) serve(l *Listener) {
	s := &Shim{Listener: l, Runtime: g.runtime, Handover: func(context.Context) error { return g.next() }, HandoverTimeout: time.Hour}
	if g.shim != nil {
		s.EventStreams = g.shim.CountEventStreams()
	}
	s.held.timeout = time.Hour // the streams are opened also if the machine is busy
	g.shim = s
	s.SetHook(passHook())
	g.ended.Go(func() {
		if err := s.Run(g.ctx); err != nil {
			g.t.Error(err)
		}
	})
}

// next starts the next shim.
func (g *generations) next() error {
	h, err := g.current.Handoff()
	if err != nil {
		return err
	}
	// Another process has its own descriptors.
	lock, err := syscall.Dup(int(h.Lock.Fd()))
	if err != nil {
		return err
	}
	h.Lock = os.NewFile(uintptr(lock), h.Lock.Name())
	l, err := TakeOver(h)
	if err != nil {
		return err
	}
	g.current = l
	g.serve(l)
	<-l.Accepting()
	return nil
}

func listenAt(t *testing.T) func(path string) *Listener {
	return func(path string) *Listener {
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// TestHandover_NoCallFails: ten handovers in a row, with a socket of the shim and of a service
// manager. A unary call, a streamed list and calls of clients that connect each time all
// succeed, and the stream of events ends with a code after which the kubelet opens it again.
func TestHandover_NoCallFails(t *testing.T) {
	for name, open := range map[string]func(path string) *Listener{
		"own socket": listenAt(t),
		"socket of the service manager": func(path string) *Listener {
			l, err := Inherit(path, managerSocket(t, path, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) { testHandovers(t, open) })
	}
}

func testHandovers(t *testing.T, open func(path string) *Listener) {
	runtime := newFakeRuntime()
	runtimePath := filepath.Join(t.TempDir(), "runtime.sock")
	serveRuntime(t, runtimePath, runtime)
	g := newGenerations(t, "unix://"+runtimePath, open)
	kubelet := runtimeapi.NewRuntimeServiceClient(client(t, g.path))

	executed := make(chan error, 1)
	go func() {
		_, err := kubelet.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{})
		executed <- err
	}()
	<-runtime.started
	list, err := kubelet.StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list.Recv(); err != nil {
		t.Fatal(err)
	}
	<-runtime.started

	short, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() { callWhile(short, t, g.path, kubelet) })
		clients.Go(func() { callWhile(short, t, g.path, nil) })
	}
	for range 10 {
		events := openEvents(t, kubelet)
		if err := RequestHandover(t.Context(), g.path); err != nil {
			t.Fatal(err)
		}
		if _, err := events.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream of events ends with %v", err)
		}
	}
	openEvents(t, kubelet)
	end()
	clients.Wait()
	if l, err := Listen(g.path); err == nil || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("a second shim: %v, %v", l, err)
	}
	runtime.exitCodes <- 0 // for one of both calls
	runtime.exitCodes <- 0
	if err := <-executed; err != nil {
		t.Errorf("unary call during the handovers: %v", err)
	}
	if _, err := list.Recv(); err != nil {
		t.Errorf("second message of the list: %v", err)
	}
	if _, err := list.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end of the list: %v", err)
	}
	if info, err := os.Lstat(g.path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
}

func openEvents(t *testing.T, kubelet runtimeapi.RuntimeServiceClient) grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse] {
	t.Helper()
	stream, err := kubelet.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// callWhile calls the shim until ctx ends, over a new connection each time if kubelet is nil.
func callWhile(ctx context.Context, t *testing.T, path string, kubelet runtimeapi.RuntimeServiceClient) {
	for n := 0; ctx.Err() == nil; n++ {
		k := kubelet
		if k == nil {
			conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close() // not before: a connection that ends is another case
			k = runtimeapi.NewRuntimeServiceClient(conn)
		}
		if _, err := k.Version(context.WithoutCancel(ctx), &runtimeapi.VersionRequest{}); err != nil {
			t.Errorf("call %d, new connections: %v: %v", n, kubelet == nil, err)
			return
		}
	}
}

// TestHandover_Failure: the shim goes on, also after a second request at the same time.
func TestHandover_Failure(t *testing.T) {
	n := newNode(t, passHook())
	_ = n.stopShim()
	path := filepath.Join(t.TempDir(), "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	began, release := make(chan struct{}), make(chan error)
	s := &Shim{Listener: l, Runtime: "unix://" + n.runtimePath, Handover: func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case err := <-release:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	s.SetHook(passHook())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	request := func(ctx context.Context) <-chan error {
		result := make(chan error, 1)
		go func() { result <- RequestHandover(ctx, path) }()
		return result
	}
	expect := func(result <-chan error, want string) {
		t.Helper()
		if err := <-result; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := runtimeapi.NewRuntimeServiceClient(client(t, path)).Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
			t.Error(err)
		}
	}

	first := request(t.Context())
	<-began
	expect(request(t.Context()), "handover of the shim at "+path+": another handover is in progress")
	release <- errors.New("not ready")
	expect(first, "handover of the shim at "+path+": not ready")

	cancelled, cancel := context.WithCancel(t.Context())
	result := request(cancelled)
	<-began
	cancel()
	expect(result, "canceled")

	result = request(t.Context()) // of a shim that is stopped
	for {
		select {
		case <-began:
		case err := <-result: // the previous one has not ended yet
			if !strings.Contains(err.Error(), "in progress") {
				t.Fatal(err)
			}
			result = request(t.Context())
			continue
		}
		break
	}
	stop()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestHandover_Unsupported: a version without the service forwards the request.
func TestHandover_Unsupported(t *testing.T) {
	n := newNode(t, passHook())
	if err := RequestHandover(t.Context(), n.shim.Listener.Addr().String()); err == nil ||
		!strings.Contains(err.Error(), "does not support a handover: restart it") {
		t.Error(err)
	}
}

// TestHandover_Stop: a shim that has handed over and is stopped then drains no longer than one
// that is stopped at once.
func TestHandover_Stop(t *testing.T) {
	runtime := newFakeRuntime()
	runtimePath := filepath.Join(t.TempDir(), "runtime.sock")
	serveRuntime(t, runtimePath, runtime)
	l, err := Listen(filepath.Join(t.TempDir(), "shim.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Shim{Listener: l, Runtime: "unix://" + runtimePath,
		Handover: func(context.Context) error { return nil }, DrainTimeout: 10 * time.Millisecond}
	s.SetHook(passHook())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	kubelet := runtimeapi.NewRuntimeServiceClient(client(t, l.Addr().String()))
	executed := make(chan error, 1)
	go func() {
		_, err := kubelet.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{})
		executed <- err
	}()
	<-runtime.started
	if err := RequestHandover(t.Context(), l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-executed; status.Code(err) != codes.Unavailable {
		t.Errorf("the call ends with %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-runtime.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the runtime sees %v", err)
	}
}

func TestTakeOver_Errors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, tt := range map[string]struct {
		change func(h *Handoff)
		want   string
	}{
		"another path": {func(h *Handoff) { h.Path += "2" }, `want unix stream socket "` + path + `2"`},
		"another lock": {func(h *Handoff) {
			f, err := os.Open(path + ".lock")
			if err != nil {
				t.Fatal(err)
			}
			h.Lock = f
		}, "is locked by another process"},
		"another directory": {func(h *Handoff) { h.Path = "/nonexistent/shim.sock" }, "no such file"},
	} {
		h, err := l.Handoff()
		if err != nil {
			t.Fatal(err)
		}
		lock, err := syscall.Dup(int(h.Lock.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		h.Lock = os.NewFile(uintptr(lock), "")
		tt.change(&h)
		if other, err := TakeOver(h); err == nil ||
			!strings.HasPrefix(err.Error(), "taking over the socket of another shim: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", name, other, err, tt.want)
		}
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the socket is removed: %v", err)
	} else {
		c.Close()
	}
}
