// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// serve serves s until the test ends, and returns a client.
func serve(t *testing.T, s *StatusServer) StatusClient {
	t.Helper()
	dir, err := os.MkdirTemp("", "status") // the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l := must.Get(net.Listen("unix", socket))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return StatusClient{Socket: socket}
}

func TestClient(t *testing.T) {
	var got []string
	command := func(name string) commandFunc {
		return func(_ context.Context, namespace, pod string) ([]v1alpha1.NodeResult, error) {
			got = append(got, name+" "+namespace+"/"+pod)
			switch pod {
			case "unknown":
				return nil, fmt.Errorf("%w: %s/%s", ErrUnknownPod, namespace, pod)
			case "broken":
				return nil, errors.New("broken")
			}
			return []v1alpha1.NodeResult{{Namespace: namespace, Name: pod, Result: "refreshed"}}, nil
		}
	}
	c := serve(t, &StatusServer{
		Status: func() v1alpha1.AgentStatus { return v1alpha1.AgentStatus{Pods: 3} },
		Pods: func() []v1alpha1.NodePod {
			return []v1alpha1.NodePod{{Name: "a", Actual: strings.Repeat("x", maxTexts)}, {Name: "b", Actual: "x"}, {Name: "c"}}
		},
		Refresh: command("refresh"), Restore: command("restore"),
	})
	if s, err := c.Status(t.Context()); err != nil || s.Pods != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	pods, err := c.Pods(t.Context(), "")
	if err != nil || len(pods.Pods) != 3 || pods.Omitted != 2 || pods.Pods[0].Actual == "" || pods.Pods[1].Actual != "" {
		t.Errorf("%d pods, %d omitted, %v", len(pods.Pods), pods.Omitted, err)
	}
	if one, err := c.Pods(t.Context(), "/b"); err != nil || len(one.Pods) != 1 || one.Pods[0].Name != "b" {
		t.Errorf("%d pods, %v", len(one.Pods), err)
	}
	if _, err := c.Pods(t.Context(), "shop/b"); !errors.Is(err, ErrUnknownPod) {
		t.Errorf("a pod of another node: %v", err)
	}
	for _, pod := range []string{"shop/web", ""} {
		if r, err := c.Refresh(t.Context(), pod); err != nil || len(r) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := c.Restore(t.Context(), pod); err != nil || len(r) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if want := "refresh shop/web, restore shop/web, refresh /, restore /"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	for pod, want := range map[string]string{
		"shop/unknown": "unknown pod: shop/unknown", "shop/broken": "broken",
		"shop": `"shop" is not NAMESPACE/NAME`, "/web": `"/web" is not NAMESPACE/NAME`,
	} {
		if _, err := c.Refresh(t.Context(), pod); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", pod, err, want)
		}
	}
}

// TestClient_Errors checks that errors say what to do.
func TestClient_Errors(t *testing.T) {
	directory := t.TempDir()
	stale := filepath.Join(directory, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, socket := range []string{filepath.Join(directory, "missing"), stale} {
		_, err := StatusClient{Socket: socket}.Pods(t.Context(), "")
		if !errors.Is(err, ErrNotServed) || !strings.Contains(err.Error(), "start the service that runs dnsconfigurer agent") {
			t.Errorf("%s: %v", socket, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = StatusClient{Socket: stale}.Pods(ctx, "")
	if err == nil || err.Error() != stale+": context canceled" {
		t.Errorf("%v", err)
	}
	denied := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}
	if err := (StatusClient{Socket: stale}).describe(denied); !strings.Contains(err.Error(), "run this command as root") {
		t.Errorf("%v", err)
	}
}

// TestRelays: an agent is ready while one of its relays reports to have the
// sandboxes of the runtime.
func TestRelays(t *testing.T) {
	const reset, running = podfile.Reset, podfile.Running
	const synced, lost = podfile.Synchronized, podfile.Unsynchronized
	type events = []podfile.Kind
	for name, c := range map[string]struct {
		relays      []events
		withRuntime int
	}{
		"none":                    {},
		"connected a moment ago":  {relays: []events{{}}},
		"sandboxes follow":        {relays: []events{{reset, running}}},
		"without the runtime":     {relays: []events{{reset, lost}}},
		"with the runtime":        {relays: []events{{reset, running, synced, running}}, withRuntime: 1},
		"the runtime is lost":     {relays: []events{{reset, running, synced, lost}}},
		"an event after the loss": {relays: []events{{reset, synced, lost, running}}},
		"the runtime is back":     {relays: []events{{reset, synced, lost, reset, synced}}, withRuntime: 1},
		"two, one lost":           {relays: []events{{reset, synced, lost}, {reset, synced}}, withRuntime: 1},
		"two":                     {relays: []events{{reset, synced}, {reset, synced}}, withRuntime: 2},
		"two, both lost":          {relays: []events{{reset, synced, lost}, {reset, lost}}},
	} {
		var r relays
		var all []func()
		for _, kinds := range c.relays {
			report, remove := r.add()
			for _, kind := range kinds {
				report(kind)
			}
			all = append(all, remove)
		}
		got := int(r.withRuntime.Load())
		if err := r.ready(); (err == nil) != (c.withRuntime > 0) || got != c.withRuntime || int(r.connected.Load()) != len(all) {
			t.Errorf("%s: ready: %v, with the runtime: %d, want %d", name, err, got, c.withRuntime)
		}
		for _, remove := range all {
			remove()
		}
		if r.connected.Load() != 0 || r.withRuntime.Load() != 0 || r.ready() == nil {
			t.Errorf("%s: without the connections: %+v, ready: %v", name, &r, r.ready())
		}
	}
}
