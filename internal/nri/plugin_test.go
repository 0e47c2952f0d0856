// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// agent is the other end of a link.
type agent struct {
	net.Conn
	events *json.Decoder
}

// newRelay returns a plugin whose link runs until t ends, and the listener of its agent.
func newRelay(t *testing.T) (*plugin, net.Listener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.sock")
	l := must.Get(net.Listen("unix", path))(t)
	log := slog.New(slog.DiscardHandler)
	p := &plugin{
		link: &podfile.Link{Socket: path, Log: log}, log: log,
		configured: make(chan struct{}, 1), sandboxes: map[string]*sandbox{},
	}
	p.metrics = newMetrics(prometheus.NewRegistry(), p.waitsFor)
	p.link.Replay = p.sendAll
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.link.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, l
}

// accept returns the next connection of a relay.
func accept(t *testing.T, l net.Listener) agent {
	t.Helper()
	conn := must.Get(l.Accept())(t)
	t.Cleanup(func() { conn.Close() })
	return agent{conn, json.NewDecoder(conn)}
}

// acceptWithoutRuntime is accept for a relay that no runtime has called. It reads the first events.
func acceptWithoutRuntime(t *testing.T, l net.Listener) agent {
	t.Helper()
	a := accept(t, l)
	a.next(t, podfile.Reset)
	a.next(t, podfile.Unsynchronized)
	return a
}

// next returns the next event, which has this kind. A relay that asks before may register.
func (a agent) next(t *testing.T, kind podfile.Kind) (e podfile.Event) {
	t.Helper()
	for {
		e = podfile.Event{}
		if err := a.events.Decode(&e); err != nil || e.Kind != kind && e.Kind != podfile.Registering {
			t.Fatalf("%+v, %v: want %s", e, err, kind)
		}
		if e.Kind == kind {
			return e
		}
		a.acknowledge(t, e)
	}
}

func (a agent) acknowledge(t *testing.T, e podfile.Event) {
	t.Helper()
	must.Succeed(t, podfile.Write(a, podfile.Ack{Sequence: e.Sequence}))
}

func pod(id string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: id, Namespace: "shop", Name: "web", Uid: "u-" + id,
		Annotations: map[string]string{"dnsconfigurer.dev/skip": "true", "example.com/secret": "s"},
		Linux:       &api.LinuxPodSandbox{Namespaces: []*api.LinuxNamespace{{Type: "network"}}},
	}
}

func container(sandbox, source string) *api.Container {
	return &api.Container{PodSandboxId: sandbox, Mounts: []*api.Mount{
		{Destination: "/etc/hosts", Source: "/hosts"}, {Destination: "/etc/resolv.conf", Source: source},
	}}
}

// TestPlugin_Events passes the life of a sandbox.
func TestPlugin_Events(t *testing.T) {
	p, l := newRelay(t)
	a := acceptWithoutRuntime(t, l)
	ctx := t.Context()
	must.Succeed(t, p.RunPodSandbox(ctx, pod("a")))
	e := a.next(t, podfile.Started)
	if s := e.Sandbox; s.ID != "a" || s.Namespace != "shop" || s.Name != "web" || s.UID != "u-a" ||
		s.HostNetwork || len(s.Annotations) != 1 {
		t.Errorf("%+v", s)
	}
	for _, first := range []bool{true, false} {
		done := make(chan error, 1)
		go func() {
			_, _, err := p.CreateContainer(ctx, pod("a"), container("a", "/x/sandboxes/a/resolv.conf"))
			done <- err
		}()
		e := a.next(t, podfile.Creating)
		if e.Path != "/x/sandboxes/a/resolv.conf" || e.First != first || e.Sequence == 0 {
			t.Errorf("%+v, want first: %t", e, first)
		}
		a.acknowledge(t, e)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, _, err := p.CreateContainer(ctx, pod("a"), container("a", "/var/lib/kubelet/pods/u/volumes/x/resolv.conf")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.StopPodSandbox(ctx, pod("a")), p.RemovePodSandbox(ctx, pod("a")), p.RunPodSandbox(ctx, pod("b"))); err != nil {
		t.Error(err)
	}
	if e := a.next(t, podfile.Removed); e.Sandbox.ID != "a" {
		t.Errorf("%+v", e)
	}
	if e := a.next(t, podfile.Started); e.Sandbox.ID != "b" { // one Removed for both
		t.Errorf("%+v", e)
	}
}

// TestPlugin_Predecessor: a sandbox that has stopped before the relay connected is not announced
// beside its successor. Sandboxes of other pods are.
func TestPlugin_Predecessor(t *testing.T) {
	p, l := newRelay(t)
	a := acceptWithoutRuntime(t, l)
	successor := pod("b")
	successor.Uid = "u-a"
	must.Get(p.Synchronize(t.Context(), []*api.PodSandbox{pod("a"), successor, pod("c")}, []*api.Container{
		container("b", "/x/b/userdata/resolv.conf"),
	}))(t)
	a.next(t, podfile.Reset)
	kinds := map[string]podfile.Kind{}
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.replayLocked()
	if last := events[len(events)-1].Kind; last != podfile.Synchronized {
		t.Errorf("the last event is %s", last)
	}
	for _, e := range events[1 : len(events)-1] {
		kinds[e.Sandbox.ID] = e.Kind
	}
	if want := map[string]podfile.Kind{"b": podfile.Running, "c": podfile.Started}; !maps.Equal(kinds, want) {
		t.Errorf("announced %v, want %v", kinds, want)
	}
}

// TestPlugin_Lost: the agent learns once that the runtime is lost. A call of the lost connection that
// ends later does not tell it the opposite, and neither is an agent told that connects then.
func TestPlugin_Lost(t *testing.T) {
	p, l := newRelay(t)
	a := acceptWithoutRuntime(t, l)
	p.lose() // a connection that was never synchronized
	connection, end := context.WithCancel(t.Context())
	synchronize := func() {
		t.Helper()
		must.Get(p.Synchronize(connection, []*api.PodSandbox{pod("a")}, nil))(t)
		a.next(t, podfile.Reset)
		a.next(t, podfile.Started)
	}
	synchronize()
	a.next(t, podfile.Synchronized)
	end()
	p.lose()
	p.lose() // an attempt to connect that failed
	a.next(t, podfile.Unsynchronized)
	synchronize()
	a.next(t, podfile.Unsynchronized)
	a.Close()
	a = accept(t, l)
	a.next(t, podfile.Reset)
	a.next(t, podfile.Started)
	a.next(t, podfile.Unsynchronized)
}

// TestPlugin_Exited: the first container of a sandbox that is older than the connection is not
// announced as the first one. Others may have exited, which runtimes do not list.
func TestPlugin_Exited(t *testing.T) {
	p, _ := newRelay(t)
	must.Get(p.Synchronize(t.Context(), []*api.PodSandbox{pod("a")}, nil))(t)
	if e := p.creating(pod("a"), "/x/sandboxes/a/resolv.conf"); e.First {
		t.Errorf("%+v", e)
	}
}

// TestPlugin_Reconnect: each agent gets all sandboxes.
func TestPlugin_Reconnect(t *testing.T) {
	p, l := newRelay(t)
	first := acceptWithoutRuntime(t, l)
	must.Get(p.Synchronize(t.Context(), []*api.PodSandbox{pod("a")}, []*api.Container{
		container("a", "/x/a/userdata/resolv.conf"), container("unknown", "/x/unknown/userdata/resolv.conf"),
	}))(t)
	for range 2 {
		first.next(t, podfile.Reset)
		if e := first.next(t, podfile.Running); e.Path != "/x/a/userdata/resolv.conf" || e.Sandbox.ID != "a" {
			t.Errorf("%+v", e)
		}
		first.next(t, podfile.Synchronized)
		first.Close()
		first = accept(t, l)
	}
}

// TestPlugin_Panic: a panic does not fail the container.
func TestPlugin_Panic(t *testing.T) {
	p, _ := newRelay(t)
	p.mu.Lock()
	p.sandboxes = nil // a map that cannot be written
	p.mu.Unlock()
	if err := p.RunPodSandbox(t.Context(), pod("a")); err != nil {
		t.Error(err)
	}
	if _, _, err := p.CreateContainer(t.Context(), pod("a"), container("a", "/x/sandboxes/a/resolv.conf")); err != nil {
		t.Error(err)
	}
}

func TestMountSource(t *testing.T) {
	for source, want := range map[string]bool{
		"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/a/resolv.conf": true,
		"/run/containers/storage/overlay-containers/a/userdata/resolv.conf":     true,
		"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/b/resolv.conf": false,
		"/var/lib/kubelet/pods/u/volume-subpaths/c/x/resolv.conf":               false,
		"": false,
	} {
		if got := mountSource(container("a", source), "a"); (got == source && source != "") != want {
			t.Errorf("%q: %q", source, got)
		}
	}
}

// runtime is a container runtime with one plugin, the relay.
type runtime struct {
	mux    multiplex.Mux
	plugin *bufio.Reader // of replies; the connection refuses reads that are shorter than a message
	stream uint32        // of the last call
}

// acceptPlugin returns the runtime that has replied to the registration of the plugin at conn, and has
// called nothing.
func acceptPlugin(conn net.Conn) (*runtime, error) {
	r := &runtime{mux: multiplex.Multiplex(conn)}
	service, err := r.mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return nil, err
	}
	header, err := readMessage(bufio.NewReaderSize(service, 64<<10))
	if err != nil {
		return nil, err
	}
	if err := writeMessage(service, binary.BigEndian.Uint32(header[4:]), 2, nil); err != nil { // a response without fields
		return nil, err
	}
	return r, nil
}

// synchronize configures the plugin, and announces sandboxes.
func (r *runtime) synchronize(sandboxes ...*api.PodSandbox) error {
	if err := r.call("Configure", &api.ConfigureRequest{RuntimeName: "test", NRIVersion: "v0.12.0"}); err != nil {
		return err
	}
	return r.call("Synchronize", &api.SynchronizeRequest{Pods: sandboxes})
}

// call calls a method of the plugin, and returns when it has replied.
func (r *runtime) call(method string, request proto.Message) error {
	payload, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	service, err := r.mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		return err
	}
	if r.plugin == nil {
		r.plugin, r.stream = bufio.NewReaderSize(service, 64<<10), 1
	} else {
		r.stream += 2 // numbers of clients are odd
	}
	// The message Request of github.com/containerd/ttrpc: service, method, payload.
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "nri.pkg.api.v1alpha1.Plugin")
	message = protowire.AppendString(protowire.AppendTag(message, 2, protowire.BytesType), method)
	message = protowire.AppendBytes(protowire.AppendTag(message, 3, protowire.BytesType), payload)
	if err := writeMessage(service, r.stream, 1, message); err != nil {
		return err
	}
	_, err = readMessage(r.plugin)
	return err
}

// readMessage reads a message and returns its header, which is that of github.com/containerd/ttrpc:
// length, stream, type and flags.
func readMessage(r *bufio.Reader) (header []byte, err error) {
	header = make([]byte, 10)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	_, err = r.Discard(int(binary.BigEndian.Uint32(header)))
	return header, err
}

// writeMessage writes a message of this type: 1 is a request, 2 a response.
func writeMessage(w io.Writer, stream uint32, kind byte, payload []byte) error {
	message := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	message = binary.BigEndian.AppendUint32(message, stream)
	_, err := w.Write(append(append(message, kind, 0), payload...))
	return err
}
