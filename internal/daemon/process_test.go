// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestSocketHint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, inUse := dnsserver.ListenSharedTCP(t.Context(), l.Addr().String())
	other := errors.New("another")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{inUse, ": stop the other server, or set another address with --http or http in the configuration"},
		{syscall.EADDRNOTAVAIL, ": set an address of the node with --http or http in the configuration"},
		{syscall.EACCES, ": ports below 1024 need CAP_NET_BIND_SERVICE, or the sysctl net.ipv4.ip_unprivileged_port_start"},
		{other, ""},
	} {
		got := daemon.SocketHint(tt.err, "http")
		if !errors.Is(got, tt.err) || got.Error() != tt.err.Error()+tt.want {
			t.Errorf("%v", got)
		}
	}
	_, err = daemon.ListenHTTP(t.Context(), l.Addr().String())
	want := "serving metrics and health on " + l.Addr().String() +
		": address already in use: stop the other server, or set another address with --http or http in the configuration"
	if !errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "linux" && err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestTuneRuntime checks the values, that the environment takes precedence, and that they
// are restored.
func TestTuneRuntime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	settings := func() [2]int {
		percent := debug.SetGCPercent(-1)
		debug.SetGCPercent(percent)
		return [2]int{runtime.GOMAXPROCS(0), percent}
	}
	for _, tt := range []struct {
		of                  [2]int
		processors, percent string
		want                [2]int
	}{
		{[2]int{1, 50}, "", "", [2]int{1, 50}},
		{[2]int{0, 75}, "", "", [2]int{3, 75}},
		{[2]int{1, 50}, "3", "", [2]int{3, 50}},
		{[2]int{1, 50}, "", "77", [2]int{1, 77}},
	} {
		t.Setenv("GOMAXPROCS", tt.processors)
		t.Setenv("GOGC", tt.percent)
		restore := daemon.TuneRuntime(tt.of[0], tt.of[1])
		if got := settings(); got != tt.want {
			t.Errorf("%v $GOMAXPROCS=%s $GOGC=%s: got %v, want %v", tt.of, tt.processors, tt.percent, got, tt.want)
		}
		restore()
		if got := settings(); got != [2]int{3, 77} {
			t.Errorf("not restored: %v", got)
		}
	}
}

func TestLogFailure(t *testing.T) {
	two := errors.Join(errors.New("one"), errors.New("two"))
	for _, tt := range []struct {
		name  string
		err   error
		lines int
	}{
		{"no server", two, 0},
		{"JSON", daemon.Failure{Err: two, Format: "json"}, 2},
		{"text", daemon.Failure{Err: two, Format: "text"}, 0},
	} {
		var out bytes.Buffer
		logged := daemon.LogFailure(&out, tt.err)
		if n := strings.Count(out.String(), `"msg":"server failed","error":"`); logged != (tt.lines > 0) || n != tt.lines {
			t.Errorf("%s: %v, %d lines, want %d: %s", tt.name, logged, n, tt.lines, out.String())
		}
	}
}

func TestNewRegistry(t *testing.T) {
	r := daemon.NewRegistry("v1.2.3")
	want := `
		# HELP dnsconfigurer_build_info 1, with the version of the program and of Go as labels.
		# TYPE dnsconfigurer_build_info gauge
		dnsconfigurer_build_info{goversion="` + runtime.Version() + `",version="v1.2.3"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dnsconfigurer_build_info"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r, "go_goroutines"); n != 1 || err != nil {
		t.Errorf("go_goroutines: %d series, %v", n, err)
	}
}

// TestServe: a server has a log in the format, whose first line has the version, and its error is
// reported in the same format.
func TestServe(t *testing.T) {
	failed := errors.New("no address")
	for _, tt := range []struct {
		name   string
		serve  func(stdout, stderr io.Writer, format, version string, run func(daemon.Process) error) error
		series int // of lines that were dropped
	}{
		{"Serve", daemon.Serve, 0},
		{"ServeOnNode", daemon.ServeOnNode, 1},
	} {
		var log bytes.Buffer
		err := tt.serve(io.Discard, &log, "json", "v1.2.3", func(p daemon.Process) error {
			n, err := testutil.GatherAndCount(p.Metrics, "dnsconfigurer_log_lines_dropped_total")
			if n != tt.series || err != nil || p.Reload == nil || p.Stdout != io.Discard {
				t.Errorf("%s: %d series, %v, %+v", tt.name, n, err, p)
			}
			p.Log.Info("serving")
			return failed
		})
		if failure, ok := errors.AsType[daemon.Failure](err); !ok || failure.Format != "json" || !errors.Is(err, failed) {
			t.Errorf("%s: %v, want a Failure in JSON", tt.name, err)
		}
		started, rest, _ := strings.Cut(log.String(), "\n")
		if !strings.HasSuffix(started, `"msg":"starting","version":"v1.2.3"}`) || !strings.Contains(rest, `"msg":"serving"`) {
			t.Errorf("%s: log %s", tt.name, log.String())
		}
		if err := tt.serve(nil, &log, "text", "", func(daemon.Process) error { return nil }); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := tt.serve(nil, &log, "xml", "", nil); err == nil {
			t.Errorf("%s: a log in XML", tt.name)
		}
	}
}

// recorder makes tasks that record in which order they end.
type recorder struct{ ended chan string }

// task returns one that drains for a while after ctx ends.
func (r recorder) task(name string, drain time.Duration, err error) daemon.Task {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(drain)
		r.ended <- name
		return err
	}
}

func (r recorder) order() (names []string) {
	close(r.ended)
	for name := range r.ended {
		names = append(names, name)
	}
	return names
}

func TestGroup_LastEndAfterTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder{make(chan string, 3)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := daemon.Group{
			Tasks: []daemon.Task{r.task("server", time.Second, nil), r.task("reload", 0, nil)},
			Last:  []daemon.Task{r.task("data", 0, nil)},
		}.Run(ctx)
		if got, want := r.order(), []string{"reload", "server", "data"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("tasks end in the order %v, want %v; %v", got, want, err)
		}
	})
}

func TestGroup_FailureEndsAll(t *testing.T) {
	failure := errors.New("failure")
	fail := func(context.Context) error { return failure }
	for name, group := range map[string]func(recorder) daemon.Group{
		"a task": func(r recorder) daemon.Group {
			return daemon.Group{Tasks: []daemon.Task{fail, r.task("server", time.Second, errors.New("later"))},
				Last: []daemon.Task{r.task("data", 0, nil)}}
		},
		"a last task": func(r recorder) daemon.Group {
			return daemon.Group{Tasks: []daemon.Task{r.task("server", time.Second, nil)}, Last: []daemon.Task{fail, r.task("data", 0, nil)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := recorder{make(chan string, 2)}
				err := group(r).Run(t.Context())
				if got, want := r.order(), []string{"server", "data"}; !errors.Is(err, failure) || !slices.Equal(got, want) {
					t.Errorf("tasks end in the order %v, want %v; %v", got, want, err)
				}
			})
		})
	}
}

// TestReloader_RetriesApply: a valid configuration that cannot be applied is applied again
// until it succeeds, without another change of the file. The error is logged once.
func TestReloader_RetriesApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		var log logbuffer.Buffer
		failures, applied := 0, 0
		r := daemon.Reloader[int]{
			Process: daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil))}, Source: source,
			Apply: func(int) (daemon.Task, error) {
				applied++
				if failures > 0 {
					failures--
					return nil, errors.New("too many watches")
				}
				return nil, nil
			},
		}
		must.Succeed(t, r.Start(0))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		failures = 3
		source.changed.Store(true)
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if applied != 5 || strings.Count(log.String(), "too many watches") != 1 {
			t.Errorf("applied %d times, want 5: at the start, and 4 times after the change; the log:\n%s", applied, log.String())
		}
	})
}

// fakeSource is a source of valid configurations.
type fakeSource struct{ changed atomic.Bool }

func (s *fakeSource) Load() (int, error)            { return 1, nil }
func (s *fakeSource) Changed() bool                 { return s.changed.Swap(false) }
func (s *fakeSource) NeedRestart(_, _ int) []string { return nil }

// TestHTTP_KeepServing: a server goes on if its port for metrics is in use, which the log has once. The end of the
// context does not open the socket once more.
func TestHTTP_KeepServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, opened := time.Now(), 0
		listen := func(context.Context, string) (net.Listener, error) {
			if opened++; opened == 3 {
				stop()
			}
			return nil, errors.New("in use")
		}
		var log bytes.Buffer
		p := daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := daemon.HTTP{Process: p}.KeepServing(":0", listen)(ctx)
		if took := time.Since(began); err != nil || opened != 3 || took != 20*time.Second {
			t.Errorf("opened %d times in %v, want 3 in 20s; %v", opened, took, err)
		}
		if n := strings.Count(log.String(), "retrying"); n != 1 {
			t.Errorf("%d lines, want 1:\n%s", n, &log)
		}
		p.Metrics = prometheus.NewRegistry()
		if err := (daemon.HTTP{Process: p}).KeepServing(":0", listen)(ctx); err != nil || opened != 3 {
			t.Errorf("opened %d times after the end, want 3; %v", opened, err)
		}
	})
}

func TestHTTP_Ready(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ready := make(chan error, 1)
	h := daemon.HTTP{
		Process: daemon.Process{Metrics: prometheus.NewRegistry()},
		Ready:   func() ([]string, error) { return []string{"detail"}, <-ready },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Serve(ctx, l) }()
	for _, tt := range []struct {
		path string
		err  error
		want string
	}{
		{"/readyz", nil, "200 ok\n"},
		{"/readyz?verbose", nil, "200 ok\ndetail\n"},
		{"/readyz", errors.New("not loaded"), "503 not loaded\ndetail\n"},
	} {
		ready <- tt.err
		r := must.Get(http.Get("http://" + l.Addr().String() + tt.path))(t)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if got := fmt.Sprintf("%d %s", r.StatusCode, body); err != nil || got != tt.want {
			t.Errorf("%s: %q, want %q; %v", tt.path, got, tt.want, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
