// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"errors"
	"net"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
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
}

func TestListenHTTP_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	_, err = daemon.ListenHTTP(t.Context(), addr)
	want := "serving metrics and health on " + addr +
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
		processors, percent string
		want                [2]int
	}{
		{"", "", [2]int{1, 50}},
		{"3", "", [2]int{3, 50}},
		{"", "77", [2]int{1, 77}},
	} {
		t.Setenv("GOMAXPROCS", tt.processors)
		t.Setenv("GOGC", tt.percent)
		restore := daemon.TuneRuntime()
		if got := settings(); got != tt.want {
			t.Errorf("$GOMAXPROCS=%s $GOGC=%s: got %v, want %v", tt.processors, tt.percent, got, tt.want)
		}
		restore()
		if got := settings(); got != [2]int{3, 77} {
			t.Errorf("not restored: %v", got)
		}
	}
}
