// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// TestPortTaken: no pod waits because the port of the metrics is another program's.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log lockedBuffer
	ended := make(chan error)
	go func() {
		ended <- keepServingHTTP(ctx, listenAt(l.Addr().String()), prometheus.NewRegistry(), nil, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "trying again"); {
		select {
		case err := <-ended:
			t.Fatalf("ended with %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log says: %s", log.String())
		}
		runtime.Gosched()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSocketHint: a port that is taken, and what else keeps a socket from being opened.
func TestSocketHint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken := dnsserver.ListenSharedTCP(t.Context(), l.Addr().String())
	other := errors.New("another")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{taken, "; another server has it; --http, or http in the configuration, takes another address"},
		{syscall.EADDRNOTAVAIL, "; give --http, or http in the configuration, an address that the node has"},
		{syscall.EACCES, "; ports below 1024 need CAP_NET_BIND_SERVICE"},
		{other, ""},
	} {
		got := socketHint(tt.err, "http")
		if !errors.Is(got, tt.err) || got.Error() != tt.err.Error()+tt.want {
			t.Errorf("%v", got)
		}
	}
}

// TestFrugal has what a shim asks of Go's runtime, and what wins over it.
func TestFrugal(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	settings := func() [2]int {
		percent := debug.SetGCPercent(-1)
		debug.SetGCPercent(percent)
		return [2]int{runtime.GOMAXPROCS(0), percent}
	}
	for _, c := range []struct {
		processors, percent string
		want                [2]int
	}{
		{"", "", [2]int{1, 50}},
		{"3", "", [2]int{3, 50}},
		{"", "77", [2]int{1, 77}},
	} {
		t.Setenv("GOMAXPROCS", c.processors)
		t.Setenv("GOGC", c.percent)
		restore := frugal()
		if got := settings(); got != c.want {
			t.Errorf("$GOMAXPROCS=%s $GOGC=%s: got %v, want %v", c.processors, c.percent, got, c.want)
		}
		restore()
		if got := settings(); got != [2]int{3, 77} {
			t.Errorf("left %v behind", got)
		}
	}
}
