// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// fakeRuntime is a container runtime with two sandboxes, whose calls may fail.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	listFails   atomic.Bool // as while the runtime starts
	statusFails atomic.Bool
	statusHangs atomic.Bool
}

func (r *fakeRuntime) ListPodSandbox(
	context.Context, *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	if r.listFails.Load() {
		return nil, errors.New("starting")
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "s1"}, {Id: "s2"}}}, nil
}

func (r *fakeRuntime) PodSandboxStatus(
	ctx context.Context, q *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	if r.statusHangs.Load() {
		<-ctx.Done()
	}
	if r.statusFails.Load() {
		return nil, errors.New("no status of " + q.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{
		Status: &runtimeapi.PodSandboxStatus{
			Metadata:    &runtimeapi.PodSandboxMetadata{Namespace: "shop", Name: "web", Uid: "u-" + q.PodSandboxId},
			Annotations: map[string]string{cri.SkipAnnotation: "true", "example.com/secret": strings.Repeat("s", 1<<20)},
			Network:     &runtimeapi.PodSandboxNetworkStatus{Ip: "10.1.2.3"},
		},
		Info: map[string]string{"info": `{"runtimeSpec": {"mounts": [{"destination": "/etc/resolv.conf", "source": "/x/` +
			q.PodSandboxId + `/resolv.conf"}]}}`},
	}, nil
}

// announcerTest is an announcer that runs with a runtime and the socket of an agent.
type announcerTest struct {
	*testing.T
	*announcer
	runtime *fakeRuntime
	agents  net.Listener
	log     *logbuffer.Buffer
}

func newAnnouncerTest(t *testing.T, runtime *fakeRuntime) *announcerTest {
	a := &announcerTest{T: t, runtime: runtime, log: &logbuffer.Buffer{}}
	listen := func(name string) net.Listener {
		l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), name)))(t)
		t.Cleanup(func() { l.Close() })
		return l
	}
	l := listen("r.sock")
	a.agents = listen("a.sock")
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, a.runtime)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	client := must.Get(cri.NewClient("unix://" + l.Addr().String()))(t)
	t.Cleanup(func() { client.Close() })
	a.announcer = newAnnouncer(a.agents.Addr().String(), client, slog.New(slog.NewTextHandler(a.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

// connect returns the next connection of the announcer, as an agent has it.
func (a *announcerTest) connect() (conn net.Conn, next func(podfile.Kind) podfile.Event) {
	a.Helper()
	conn = must.Get(a.agents.Accept())(a)
	a.Cleanup(func() { conn.Close() })
	must.Succeed(a, conn.SetDeadline(time.Now().Add(time.Minute)))
	events := json.NewDecoder(conn)
	return conn, func(kind podfile.Kind) (e podfile.Event) {
		a.Helper()
		for {
			e = podfile.Event{}
			if err := events.Decode(&e); err != nil {
				a.Fatalf("want %s: %v", kind, err)
			}
			if e.Kind == kind {
				return e
			}
		}
	}
}

// TestAnnouncer sends all sandboxes to each agent, and those that start and stop to the one that listens.
func TestAnnouncer(t *testing.T) {
	a := newAnnouncerTest(t, &fakeRuntime{})
	for range 2 {
		conn, next := a.connect()
		next(podfile.Reset)
		for _, id := range []string{"s1", "s2"} {
			e := next(podfile.Running)
			if s := e.Sandbox; s.ID != id || s.Name != "web" || s.UID != "u-"+id || len(s.Annotations) != 1 || s.IPs[0] != "10.1.2.3" ||
				e.Path != "/x/"+id+"/resolv.conf" || e.Request == nil || *e.Request != (podfile.Request{}) {
				t.Errorf("%+v", e)
			}
		}
		next(podfile.Synchronized)
		dns := resolvconf.Config{Nameservers: []string{"10.96.0.10"}}
		a.add("s3", cri.Report{Outcome: cri.Edited, Sandbox: cri.Sandbox{DNS: dns}, DNS: dns})
		want := podfile.Request{Outcome: "edited", Kubelet: "nameserver 10.96.0.10\n", Decision: "nameserver 10.96.0.10\n"}
		if e := next(podfile.Running); e.Sandbox.ID != "s3" || *e.Request != want {
			t.Errorf("%+v, request %+v", e, e.Request)
		}
		a.add("s4", cri.Report{Sandbox: cri.Sandbox{DNS: resolvconf.Config{Options: []string{strings.Repeat("x", 3*podfile.MaxSize)}}}})
		if e := next(podfile.Running); e.Sandbox.ID != "s4" || *e.Request != (podfile.Request{}) {
			t.Errorf("%+v, request %+v", e, e.Request)
		}
		a.remove("s3")
		if e := next(podfile.Removed); e.Sandbox.ID != "s3" {
			t.Errorf("%+v", e)
		}
		conn.Close()
	}
}

// TestAnnouncer_RuntimeFails: the agent learns that the runtime does not reply, and gets the sandboxes when
// it does. A sandbox whose status fails does not keep the others away. The log has each problem once.
func TestAnnouncer_RuntimeFails(t *testing.T) {
	runtime := &fakeRuntime{}
	runtime.listFails.Store(true)
	a := newAnnouncerTest(t, runtime)
	conn, next := a.connect()
	for range 2 {
		next(podfile.Unsynchronized)
	}
	a.runtime.listFails.Store(false)
	next(podfile.Running)
	next(podfile.Synchronized)
	a.runtime.statusFails.Store(true)
	conn.Close()
	_, next = a.connect()
	next(podfile.Synchronized)
	for problem, lines := range map[string]int{"starting": 1, "no status of s1": 1, "no status of s2": 0} {
		if got := strings.Count(a.log.String(), problem); got != lines {
			t.Errorf("%q: %d times in the log, want %d:\n%s", problem, got, lines, a.log)
		}
	}
}

// TestAnnouncer_RuntimeHangs: no call waits for a runtime that does not reply, and the memory for its
// sandboxes is limited. The connection ends, so that the sandboxes are announced when it replies.
func TestAnnouncer_RuntimeHangs(t *testing.T) {
	a := newAnnouncerTest(t, &fakeRuntime{})
	_, next := a.connect()
	next(podfile.Synchronized)
	a.runtime.statusHangs.Store(true)
	for range maxStarted + 2 {
		a.add("s3", cri.Report{})
	}
	a.runtime.statusHangs.Store(false)
	_, next = a.connect()
	next(podfile.Reset)
}

// TestAnnouncer_NoAgent: a shim without an agent logs nothing, and keeps no sandbox: the list for the next agent has it.
func TestAnnouncer_NoAgent(t *testing.T) {
	var log bytes.Buffer
	a := newAnnouncer(filepath.Join(t.TempDir(), "a.sock"), nil, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	a.add("s3", cri.Report{})
	if n := len(a.started); n > 0 {
		t.Errorf("%d sandboxes wait", n)
	}
	if err := a.run(ctx); err != nil || log.Len() > 0 {
		t.Errorf("%v, log:\n%s", err, &log)
	}
}
