// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// serveInMemory serves a shim in front of conn, in a bubble, until the function that it returns
// is called.
func serveInMemory(t *testing.T, s *Shim, conn *grpc.ClientConn) (kubelet runtimeapi.RuntimeServiceClient, stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s.Metrics, s.Log = NewMetrics(nil), slog.New(slog.DiscardHandler)
	s.SetHook(passHook())
	toShim := inMemory(t, func(l net.Listener) {
		s.Listener = l
		ended <- s.serve(ctx, conn)
	})
	return runtimeapi.NewRuntimeServiceClient(connect(t, "passthrough:///shim", toShim)), func() error {
		cancel()
		return <-ended
	}
}

// TestDial_SlowGreeting has runtimes that send their first bytes late: the first call waits
// for them and succeeds, over one connection.
func TestDial_SlowGreeting(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Second, 6 * time.Second, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			containerd := newFakeRuntime().server()
			defer containerd.Stop()
			var accepted atomic.Int32
			toRuntime := inMemory(t, func(l net.Listener) { _ = containerd.Serve(&slowListener{l, delay, &accepted}) })
			conn := must.Get(dial("passthrough:///runtime", toRuntime))(t)
			defer conn.Close()
			kubelet, stop := serveInMemory(t, &Shim{}, conn)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if _, err := kubelet.Version(ctx, &runtimeapi.VersionRequest{}); err != nil ||
				time.Since(began) != delay || accepted.Load() != 1 {
				t.Errorf("greeting after %v: %v after %v, %d connections", delay, err, time.Since(began), accepted.Load())
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// slowListener passes connections on after a delay.
type slowListener struct {
	net.Listener
	delay    time.Duration
	accepted *atomic.Int32
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
		time.Sleep(l.delay)
	}
	return c, err
}

// TestShim_CancelReachesRuntime: a call that the kubelet cancels ends at the runtime at once, and a call that hangs ends
// DrainTimeout after the shim is stopped.
func TestShim_CancelReachesRuntime(t *testing.T) {
	for isStopped, after := range map[bool]time.Duration{false: 0, true: defaultDrainTimeout} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeRuntime()
			containerd := fake.server()
			defer containerd.Stop()
			conn := must.Get(dial("passthrough:///runtime", inMemory(t, func(l net.Listener) { _ = containerd.Serve(l) })))(t)
			defer conn.Close()
			kubelet, stop := serveInMemory(t, &Shim{}, conn)
			ctx, cancel := context.WithCancel(t.Context())
			called, stopped := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := kubelet.ExecSync(ctx, &runtimeapi.ExecSyncRequest{})
				called <- err
			}()
			<-fake.started
			began := time.Now()
			if !isStopped {
				time.AfterFunc(time.Hour, func() { stopped <- stop() })
				cancel()
			} else {
				go func() { stopped <- stop() }()
			}
			if err := <-fake.ended; !errors.Is(err, context.Canceled) || time.Since(began) != after {
				t.Errorf("stopped %t: the runtime's context ends with %v after %v", isStopped, err, time.Since(began))
			}
			if err := <-called; err == nil || !isStopped && status.Code(err) != codes.Canceled {
				t.Errorf("stopped %t: the call ends with %v", isStopped, err)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			cancel()
		})
	}
}

// TestWatchRuntime has a runtime that is absent for two and a half minutes: one line a minute, and the
// metric of the connection.
func TestWatchRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		containerd := newFakeRuntime().server()
		defer containerd.Stop()
		l := bufconn.Listen(64 << 10)
		go func() { _ = containerd.Serve(l) }()
		var log logbuffer.Buffer
		registry := prometheus.NewRegistry()
		s := &Shim{Runtime: "unix:///run/x.sock", Metrics: NewMetrics(registry), Log: slog.New(slog.NewTextHandler(&log, nil))}
		var present atomic.Bool
		conn := must.Get(dial("passthrough:///runtime", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if !present.Load() {
				err := error(syscall.ENOENT)
				s.dialed.Store(&err)
				return nil, err
			}
			return l.DialContext(ctx)
		})))(t)
		defer conn.Close()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() {
			s.watchRuntime(ctx, conn)
			close(ended)
		}()
		expect := func(lines int, connected float64) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(log.String(), "\n"); got != lines {
				t.Errorf("%d lines, want %d:\n%s", got, lines, log.String())
			}
			if got := gauge(t, registry, "dnsconfigurer_runtime_connected"); got != connected {
				t.Errorf("connected: %v, want %v", got, connected)
			}
		}
		expect(1, 0)                               // before the first call
		time.Sleep(2*time.Minute + 30*time.Second) // far from a full minute: gRPC's pauses are random
		expect(3, 0)
		if want := `msg="container runtime unreachable, CRI calls fail" endpoint=unix:///run/x.sock ` +
			`error="no such file or directory"`; strings.Count(log.String(), want) != 3 {
			t.Errorf("want 3 times %s:\n%s", want, log.String())
		}
		present.Store(true)
		time.Sleep(3 * time.Second)
		expect(4, 1)
		stop()
		<-ended
		expect(4, 0)
	})
}

// gauge returns the value of a gauge without labels.
func gauge(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families := must.Get(g.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestCheckEndpoints compares paths that lead to one socket.
func TestCheckEndpoints(t *testing.T) {
	dir := t.TempDir()
	listen := filepath.Join(dir, "shim", "shim.sock")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(listen), 0o700), os.Symlink(listen, filepath.Join(dir, "link.sock")),
		os.Symlink("shim", filepath.Join(dir, "linked"))))
	for _, runtime := range []string{listen, dir + "/./shim/../shim/shim.sock", dir + "/linked/shim.sock"} {
		if CheckEndpoints(listen, runtime) == nil {
			t.Errorf("%s: no error", runtime) // although the socket does not exist yet
		}
	}
	l := must.Get(Listen(listen))(t)
	defer l.Close()
	if CheckEndpoints(listen, dir+"/link.sock") == nil {
		t.Error("a link to the socket: no error")
	}
	if err := CheckEndpoints(listen, dir+"/runtime.sock"); err != nil {
		t.Error(err)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
