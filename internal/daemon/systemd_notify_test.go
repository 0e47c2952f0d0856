// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// recorder records notifications and their times.
type notifyRecorder struct {
	start         time.Time
	notifications []string
}

func (r *notifyRecorder) send(state string) error {
	r.notifications = append(r.notifications, time.Since(r.start).String()+" "+state)
	return nil
}

// TestRun_Watchdog runs a service that starts in three seconds, then hangs, fails once and is
// stopped.
func TestRun_Watchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := notifyRecorder{start: time.Now()}
		m := Notifier{send: r.send, watchdog: 20 * time.Second}
		ready := time.After(3 * time.Second)
		calls := 0
		alive := func(ctx context.Context) error {
			switch calls++; calls {
			case 1:
				<-ready
			case 3:
				<-ctx.Done() // hangs
				return ctx.Err()
			case 4:
				return errors.New("refused")
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
		defer cancel()
		var log bytes.Buffer
		if err := m.Run(ctx, alive, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Error(err)
		}
		want := []string{"3s READY=1", "13s WATCHDOG=1", "43s WATCHDOG=1", "53s WATCHDOG=1", "55s STOPPING=1"}
		if !slices.Equal(r.notifications, want) {
			t.Errorf("notifications %q, want %q", r.notifications, want)
		}
		if n := strings.Count(log.String(), "liveness check failed"); n != 2 {
			t.Errorf("%d failures logged, want 2:\n%s", n, &log)
		}
	})
}

func TestRun_WithoutWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := notifyRecorder{start: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := (Notifier{send: r.send}).Run(ctx, func(context.Context) error { return nil }, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
		if want := []string{"0s READY=1", "1h0m0s STOPPING=1"}; !slices.Equal(r.notifications, want) {
			t.Errorf("notifications %q, want %q", r.notifications, want)
		}
	})
}

// TestRun_NotReady checks that a service that does not start is never reported ready.
func TestRun_NotReady(t *testing.T) {
	r := notifyRecorder{start: time.Now()}
	broken := errors.New("broken")
	err := Notifier{send: r.send}.Run(t.Context(), func(context.Context) error { return broken }, slog.New(slog.DiscardHandler))
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Notifier{send: r.send}).Run(ended, func(ctx context.Context) error { return ctx.Err() },
		slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("stopped while starting: %v", err)
	}
	for _, state := range r.notifications {
		if !strings.HasSuffix(state, " STOPPING=1") {
			t.Errorf("notification %q", state)
		}
	}
}

// TestRun_ManagerUnavailable checks that failed notifications do not end Run, and that the
// zero Notifier does nothing.
func TestRun_ManagerUnavailable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	alive := func(context.Context) error { cancel(); return nil }
	var log bytes.Buffer
	gone := Notifier{send: func(string) error { return errors.New("gone") }}
	if err := gone.Run(ctx, alive, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
		strings.Count(log.String(), "cannot notify systemd") != 2 {
		t.Errorf("%v, the log:\n%s", err, &log)
	}
	never := func(context.Context) error { t.Error("alive is called without a manager"); return nil }
	if err := (Notifier{}).Run(t.Context(), never, nil); err != nil {
		t.Error(err)
	}
}

// TestNewNotifier_Environment reads the environment and sends a notification to a real
// socket: at a path, and on Linux an abstract one.
func TestNewNotifier_Environment(t *testing.T) {
	addresses := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		addresses = append(addresses, "@dnsconfigurer-test-"+strconv.Itoa(os.Getpid()))
	}
	for _, address := range addresses {
		l := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"}))(t)
		defer l.Close()
		for name, tt := range map[string]struct {
			usec, pid string
			want      time.Duration
		}{
			"watchdog":                    {"30000000", strconv.Itoa(os.Getpid()), 30 * time.Second},
			"watchdog of any process":     {"1", "", time.Microsecond},
			"watchdog of another process": {"30000000", "1", 0},
			"without watchdog":            {"", "", 0},
		} {
			t.Setenv("NOTIFY_SOCKET", address)
			t.Setenv("WATCHDOG_USEC", tt.usec)
			t.Setenv("WATCHDOG_PID", tt.pid)
			m, err := NewNotifier()
			if err != nil || m.watchdog != tt.want {
				t.Errorf("%s: %v, %v, want %v", name, m.watchdog, err, tt.want)
			}
			if err := m.send("READY=1"); err != nil {
				t.Error(err)
			}
			b := make([]byte, 100)
			if n, err := l.Read(b); err != nil || string(b[:n]) != "READY=1" {
				t.Errorf("%s: received %q, %v", address, b[:n], err)
			}
			if m, err := NewNotifier(); err != nil || m.send != nil {
				t.Errorf("%s: the variables are still set: %v", name, err)
			}
		}
	}
}

func TestNewNotifier_Errors(t *testing.T) {
	for _, tt := range []struct{ address, usec, want string }{
		{"vsock:2:1234", "", `NOTIFY_SOCKET "vsock:2:1234": neither a path`},
		{"/run/notify", "soon", `WATCHDOG_USEC "soon": not a number`},
		{"/run/notify", "0", `WATCHDOG_USEC "0": not a number`},
		{"/run/notify", "9223372036854775807", `WATCHDOG_USEC "9223372036854775807": not a number`},
	} {
		t.Setenv("NOTIFY_SOCKET", tt.address)
		t.Setenv("WATCHDOG_USEC", tt.usec)
		if _, err := NewNotifier(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}
