// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// newServer returns a relay, and the listeners of its runtime and of its agent.
func newServer(t *testing.T) (s *Server, runtime, agent net.Listener) {
	t.Helper()
	directory := t.TempDir()
	listen := func(name string) net.Listener {
		l := must.Get(net.Listen("unix", filepath.Join(directory, name)))(t)
		t.Cleanup(func() { l.Close() })
		return l
	}
	runtime, agent = listen("n.sock"), listen("a.sock")
	p := daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	return &Server{Process: p, Socket: runtime.Addr().String(), Agent: agent.Addr().String()}, runtime, agent
}

// TestServer_NotConfigured: a relay whose registration the runtime has accepted, and which it does not
// configure, ends, so that it is started again. It would wait for ever.
func TestServer_NotConfigured(t *testing.T) {
	t.Parallel()
	s, listener, agents := newServer(t)
	go func() {
		if conn, err := agents.Accept(); err == nil { // an agent of an older version, without Stopping
			_ = podfile.Read(conn, func(e podfile.Event) error {
				return podfile.Write(conn, podfile.Ack{Sequence: e.Sequence})
			})
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = acceptPlugin(conn) // the relay may have ended
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Run(ctx); !errors.Is(err, errStuck) {
		t.Errorf("got %v, want %v", err, errStuck)
	}
}

// TestServer_RuntimeLost: the agent learns when the runtime, such as one that restarts, has no
// connection to the relay, and when it has one again.
func TestServer_RuntimeLost(t *testing.T) {
	t.Parallel()
	s, runtimes, agents := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	a := accept(t, agents)
	must.Succeed(t, a.SetDeadline(time.Now().Add(2*time.Minute)))
	a.next(t, podfile.Reset)
	a.next(t, podfile.Unsynchronized)
	for range 2 {
		a.acknowledge(t, a.next(t, podfile.Registering))
		conn := must.Get(runtimes.Accept())(t)
		r := must.Get(acceptPlugin(conn))(t)
		must.Succeed(t, r.synchronize(pod("a")))
		a.next(t, podfile.Reset)
		a.next(t, podfile.Started)
		a.next(t, podfile.Synchronized)
		if err := s.ready(); err != nil {
			t.Error(err)
		}
		conn.Close()
		a.next(t, podfile.Unsynchronized)
		if s.ready() == nil {
			t.Error("ready without the runtime")
		}
	}
}
