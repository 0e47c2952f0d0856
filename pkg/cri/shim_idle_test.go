// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
		conn, err := dial("passthrough:///runtime", toRuntime)
		if err != nil {
			t.Fatal(err)
		}
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
		stream, err := kubelet.GetContainerEvents(calls, &runtimeapi.GetEventsRequest{})
		if err != nil {
			t.Fatal(err)
		}
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
