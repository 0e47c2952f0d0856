// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestShim_RuntimeIsShim replaces the runtime's path while the shim runs, so that it leads to
// the shim: calls fail with the reason instead of recursing, and succeed when it is corrected.
func TestShim_RuntimeIsShim(t *testing.T) {
	links := map[string]func(listen, path string) error{"symlink": os.Symlink}
	if os.Geteuid() == 0 {
		links["bind mount"] = func(listen, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), unix.Mount(listen, path, "", unix.MS_BIND, ""))
		}
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, passHook())
			c := runtimeapi.NewRuntimeServiceClient(n.shimmed)
			if _, err := c.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
				t.Fatal(err)
			}
			listen := n.shim.Listener.Addr().String()
			n.stopRuntime()
			if err := errors.Join(os.RemoveAll(n.runtimePath), link(listen, n.runtimePath)); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Unmount(n.runtimePath, unix.MNT_DETACH) }()
			before := heap()
			poll.UntilNil(t, "the reason in the error", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := c.Version(ctx, &runtimeapi.VersionRequest{})
				if status.Code(err) != codes.Unavailable {
					t.Fatalf("Version: %v", err)
				}
				// The connection may be found closed before the first attempt to dial.
				if !strings.Contains(err.Error(), "is the socket of the shim") {
					return err
				}
				return nil
			})
			if grown := heap() - before; grown > 5<<20 {
				t.Errorf("the heap has grown by %d octets", grown)
			}
			_ = unix.Unmount(n.runtimePath, unix.MNT_DETACH)
			if err := os.Remove(n.runtimePath); err != nil {
				t.Fatal(err)
			}
			serveRuntime(t, n.runtimePath, n.runtime)
			poll.UntilNil(t, "a call after the correction", func() error {
				_, err := c.Version(t.Context(), &runtimeapi.VersionRequest{})
				return err
			})
		})
	}
}
