// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestCallError_Sockets: the errors of real connections name the socket, the reason and what to do, in one
// line without the words of gRPC.
func TestCallError_Sockets(t *testing.T) {
	dir := t.TempDir()
	missing, stale, runtime := filepath.Join(dir, "missing.sock"), filepath.Join(dir, "stale.sock"), filepath.Join(dir, "runtime.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	shim := newNodeAt(t, runtime, passHook()).shim.Listener.Addr().String() // without its runtime
	for path, want := range map[string]string{
		missing: "no such socket: start it",
		stale:   "no process serves it: start it",
		shim:    "container runtime at " + runtime + ": no such socket",
	} {
		c, err := NewClient("unix://" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want = "container runtime at " + path + ": " + want
		if _, err := c.ReadySandboxes(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	want := "shim at " + shim + ": container runtime at " + runtime + ": no such socket"
	if err := Compare(t.Context(), "unix://"+shim, "unix://"+runtime); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCallError: what gRPC and a server write, and what remains of it.
func TestCallError(t *testing.T) {
	const path = "/run/shim.sock"
	for _, tt := range []struct {
		code       codes.Code
		text, want string
	}{
		{codes.DeadlineExceeded, `latest balancer error: connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: no such file or directory"`, "no such socket: start it"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: permission denied"`, "permission denied: run this command as root"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/containerd.sock: connect: permission denied"`, "container runtime at /run/containerd.sock: permission denied"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: resource temporarily unavailable"`, "resource temporarily unavailable"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: socket: too many open files"`, "dial unix /run/shim.sock: socket: too many open files"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: a and b are the same socket"`,
			"a and b are the same socket"},
		{codes.DeadlineExceeded, "context deadline exceeded while waiting for connections to become ready", "no reply in time"},
		{codes.DeadlineExceeded, "context deadline exceeded", "no reply in time"},
		{codes.DeadlineExceeded, "stopping c1: context deadline exceeded", "stopping c1: context deadline exceeded"},
		{codes.Unavailable, "connection error: desc = \"cut", "connection error: desc = \"cut"},
		{codes.Unimplemented, "unknown service runtime.v1.RuntimeService", "unknown service runtime.v1.RuntimeService"},
		{codes.NotFound, "", "NotFound"},
	} {
		err := newCallError(path, "start it", status.Error(tt.code, tt.text))
		if err.Error() != tt.want || status.Code(err) != tt.code {
			t.Errorf("%s: %q, want %q", tt.text, err, tt.want)
		}
	}
}
