// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxdns"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// The states of a failingRuntime.
const (
	works       = iota // and has no sandbox
	listFails          // as while the runtime starts
	statusFails        // of each of its two sandboxes
)

// failingRuntime is a container runtime whose calls may fail.
type failingRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	state atomic.Int32
}

func (r *failingRuntime) ListPodSandbox(
	context.Context, *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	switch r.state.Load() {
	case works:
		return &runtimeapi.ListPodSandboxResponse{}, nil
	case listFails:
		return nil, errors.New("starting")
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
		{Id: "s1", Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "shop", Name: "web-1", Uid: "u1"}},
		{Id: "s2", Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "shop", Name: "web-2", Uid: "u2"}},
	}}, nil
}

func (r *failingRuntime) PodSandboxStatus(
	_ context.Context, q *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	return nil, errors.New("no status of " + q.PodSandboxId)
}

// dialRuntime returns a client of runtime.
func dialRuntime(t *testing.T, runtime runtimeapi.RuntimeServiceServer) *cri.Client {
	path := filepath.Join(t.TempDir(), "runtime.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, runtime)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	client, err := cri.NewClient("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// TestSandboxes_LogsProblems: a problem of the runtime is logged once while it lasts, for all
// sandboxes that have it, and again when it returns.
func TestSandboxes_LogsProblems(t *testing.T) {
	runtime := &failingRuntime{}
	client := dialRuntime(t, runtime)
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	s := newSandboxes(sandboxdns.New(sandboxdns.NewShimMetrics(prometheus.NewRegistry()), log), log)
	s.enabled = true
	for i, step := range []struct {
		state  int32
		logged string // "": nothing
	}{
		{listFails, "starting"}, {listFails, ""},
		{works, ""}, {listFails, "starting"},
		{statusFails, "no status of s1"}, {statusFails, ""},
		{works, ""}, {statusFails, "no status of s1"},
	} {
		text.Reset()
		runtime.state.Store(step.state)
		s.update(t.Context(), client)
		want := min(1, len(step.logged)) // lines
		if got := text.String(); strings.Count(got, "\n") != want || !strings.Contains(got, step.logged) {
			t.Errorf("update %d: got %q, want %d lines with %q", i, got, want, step.logged)
		}
	}
}
