// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestShim_IdleForHours runs the timers of gRPC for a day on fake time, with connections in
// memory. A stream of events that is silent for hours stays open, a call that takes as long
// succeeds, and stopping the shim ends both. The bubble fails if a goroutine is left.
func TestShim_IdleForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := newFakeRuntime()
		containerd := runtime.server()
		defer containerd.Stop()
		toRuntime := inMemory(t, func(l net.Listener) { _ = containerd.Serve(l) })
		conn := must.Get(dial("passthrough:///runtime", toRuntime))(t)
		defer conn.Close()
		kubelet, stop := serveInMemory(t, &Shim{}, conn)
		calls, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()

		executed := make(chan error, 1)
		go func() {
			r, err := kubelet.ExecSync(calls, &runtimeapi.ExecSyncRequest{}) // a probe without a timeout
			if r.GetExitCode() != 7 {
				err = errors.Join(err, errors.New("wrong exit code"))
			}
			executed <- err
		}()
		<-runtime.started
		stream := must.Get(kubelet.GetContainerEvents(calls, &runtimeapi.GetEventsRequest{}))(t)
		if header, err := stream.Header(); err != nil || len(header["early"]) != 1 {
			t.Errorf("header %v, %v", header, err)
		}
		expect := func(want string) {
			t.Helper()
			if e, err := stream.Recv(); err != nil || e.ContainerId != want {
				t.Fatalf("event %v, %v, want %s", e, err, want)
			}
		}
		expect("a")
		expect("b")
		for _, silence := range []time.Duration{time.Minute, 31 * time.Minute, 3 * time.Hour, 24 * time.Hour} {
			time.Sleep(silence)
			runtime.events <- silence.String()
			expect(silence.String())
		}
		runtime.exitCodes <- 7
		if err := <-executed; err != nil {
			t.Errorf("call that takes a day: %v", err)
		}

		stopped, ended := time.Now(), make(chan error, 1)
		go func() { ended <- stop() }()
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || time.Since(stopped) > 0 {
			t.Errorf("the stream ends with %v after %v, want Unavailable at once", err, time.Since(stopped))
		}
		if err := <-runtime.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the runtime's context ends with %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// inMemory calls serve with a listener in memory and returns the option that dials it.
func inMemory(t *testing.T, serve func(net.Listener)) grpc.DialOption {
	l := bufconn.Listen(64 << 10)
	go serve(l)
	t.Cleanup(func() { l.Close() })
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
}

// StreamContainers sends a list in two messages. Between them it waits for a value of exitCodes.
func (r *fakeRuntime) StreamContainers(_ *runtimeapi.StreamContainersRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	if err := stream.Send(&runtimeapi.StreamContainersResponse{}); err != nil {
		return err
	}
	r.started <- struct{}{}
	select {
	case <-r.exitCodes:
		return stream.Send(&runtimeapi.StreamContainersResponse{})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// TestDrain_FiniteStream: a list that is streamed completes during the drain, and a second shim
// is refused until the first has ended.
func TestDrain_FiniteStream(t *testing.T) {
	n := newNode(t, passHook())
	n.shim.DrainTimeout = time.Minute
	path := n.shim.Listener.Addr().String()
	stream, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	must.Get(stream.Recv())(t)
	<-n.runtime.started
	ended := make(chan error, 1)
	go func() { ended <- n.stopShim() }()
	poll.Until(t, "the drain, which closes the socket", func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("a second shim during the drain: %v, %v", l, err)
	}
	n.runtime.exitCodes <- 0
	if _, err := stream.Recv(); err != nil {
		t.Errorf("the second message: %v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("a second shim after the first: %v", err)
	}
	l.Close()
}

// TestShim_Leaks starts and stops many sandboxes and compares the goroutines, descriptors
// and memory before and after.
func TestShim_Leaks(t *testing.T) {
	const workers = 8
	h, _ := newHook(t, autopath)
	h.Report = func(Report) {}
	n := newNode(t, h)
	n.runtime.sandboxes = make(chan *runtimeapi.RunPodSandboxRequest, 64)
	go func() {
		for range n.runtime.sandboxes {
		}
	}()
	defer close(n.runtime.sandboxes)
	c := runtimeapi.NewRuntimeServiceClient(n.shimmed)
	sent := sandboxRequest(autopath, kubeletDNS)
	runLifecycles := func(count int) {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range count / workers {
					if _, err := c.RunPodSandbox(t.Context(), sent); err != nil {
						t.Error(err)
						return
					}
					_, _ = c.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{})
				}
			})
		}
		wg.Wait()
	}
	runLifecycles(lifecycles / 10) // connect, fill pools
	goroutines, files, heap := countResources(t, 0, 0)
	runLifecycles(lifecycles)
	goroutines2, files2, heap2 := countResources(t, goroutines, files)
	t.Logf("%d lifecycles: goroutines %d -> %d, descriptors %d -> %d, heap %d -> %d bytes",
		lifecycles, goroutines, goroutines2, files, files2, heap, heap2)
	if goroutines2 > goroutines || files2 > files {
		t.Errorf("goroutines %d -> %d, descriptors %d -> %d", goroutines, goroutines2, files, files2)
	}
	if heap2 > heap+1<<20 {
		t.Errorf("heap %d -> %d bytes", heap, heap2)
	}
}

// countResources returns the counts as soon as they are at most the given ones, or once they have
// stopped falling: goroutines and descriptors of finished calls end a little later.
func countResources(t *testing.T, maxGoroutines, maxFiles int) (goroutines, files int, heap uint64) {
	t.Helper()
	count := func() (goroutines, files int) {
		entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
		return runtime.NumGoroutine(), len(entries)
	}
	patience := time.Second
	if maxGoroutines > 0 {
		patience = time.Minute
	}
	goroutines, files = count()
	for fell := time.Now(); time.Since(fell) < patience &&
		(goroutines > maxGoroutines || files > maxFiles); time.Sleep(20 * time.Millisecond) {
		if g, f := count(); g < goroutines || f < files {
			goroutines, files, fell = g, f, time.Now()
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return goroutines, files, m.HeapAlloc
}

// TestMethods_Generated compares the table with the package generated from CRI.
func TestMethods_Generated(t *testing.T) {
	want := map[string][]string{}
	for _, service := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		path := "/" + service.ServiceName + "/"
		for _, m := range service.Methods {
			if want[path] = append(want[path], m.MethodName); !isUnary(path + m.MethodName) {
				t.Errorf("%s is unary", m.MethodName)
			}
		}
		for _, s := range service.Streams {
			if want[path] = append(want[path], s.StreamName); isUnary(path + s.StreamName) {
				t.Errorf("%s is a stream", s.StreamName)
			}
		}
	}
	if diff := cmp.Diff(want, methods, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForwardUnary_WithoutRequest begins a unary call and sends no message.
func TestForwardUnary_WithoutRequest(t *testing.T) {
	n := newNode(t, passHook())
	for name, c := range map[string]*grpc.ClientConn{"directly": n.direct, "through the shim": n.shimmed} {
		s := must.Get(c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/runtime.v1.RuntimeService/Version"))(t)
		must.Succeed(t, s.CloseSend())
		if err := s.RecvMsg(&runtimeapi.VersionResponse{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkCall calls a runtime that replies at once, directly and through the shim, all in
// one process for the profiler. BenchmarkInstant in test/node runs the shim as on a node.
func BenchmarkCall(b *testing.B) {
	h, _ := newHook(b, autopath)
	h.Report = func(Report) {}
	n := newNode(b, h)
	n.runtime.replySize = 8 << 20
	go func() {
		for range n.runtime.sandboxes {
		}
	}()
	sent := sandboxRequest(autopath, kubeletDNS)
	calls := []struct {
		name string
		call func(c runtimeapi.RuntimeServiceClient) error
	}{
		{"Version", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.Version(b.Context(), &runtimeapi.VersionRequest{})
			return err
		}},
		{"RunPodSandbox", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.RunPodSandbox(b.Context(), sent)
			return err
		}},
		{"ListContainers-8MiB", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{})
			return err
		}},
	}
	paths := []struct {
		name string
		conn *grpc.ClientConn
	}{{"direct", n.direct}, {"shim", n.shimmed}}
	for _, call := range calls {
		for _, p := range paths {
			b.Run("call="+call.name+"/path="+p.name, func(b *testing.B) {
				c := runtimeapi.NewRuntimeServiceClient(p.conn)
				b.ReportAllocs()
				for b.Loop() {
					must.Succeed(b, call.call(c))
				}
			})
		}
	}
}
