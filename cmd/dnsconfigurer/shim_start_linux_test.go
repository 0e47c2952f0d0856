// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// startErrors are the causes that end the start of a shim, and words of the error. prepare gets the
// directory of the node.
var startErrors = []struct {
	name, listen, runtime string // below that directory
	prepare               func(t *testing.T, dir string) error
	want                  string
	atStart               bool // only a start finds it: a shim that runs has the same effect
}{
	{name: "listen is not a unix socket", listen: "tcp://127.0.0.1:1", want: `"tcp://127.0.0.1:1" is not a unix socket`},
	{name: "a long path", listen: "DIR/" + strings.Repeat("x", 108), want: "a unix socket can have 107"},
	{name: "no runtime endpoint", runtime: "npipe:////./pipe/containerd", want: "is not a unix socket"},
	{name: "a relative path", runtime: "run/x.sock", want: `runtimeEndpoint: "run/x.sock" is not a unix socket`},
	{name: "one socket", runtime: "DIR/run/../run/shim.sock", want: "is the socket of the shim"},
	{name: "one socket, by a link", runtime: "DIR/link/shim.sock", want: "is the socket of the shim",
		prepare: func(_ *testing.T, dir string) error { return os.Symlink("run", dir+"/link") }},
	{name: "a regular file at the path", want: "/run/shim.sock exists and is not a socket: remove it or choose another path",
		prepare: func(_ *testing.T, dir string) error { return os.WriteFile(dir+"/run/shim.sock", nil, 0o600) }},
	{name: "a directory as the lock", want: "/run/shim.sock.lock",
		prepare: func(_ *testing.T, dir string) error { return os.Mkdir(dir+"/run/shim.sock.lock", 0o700) }},
	{name: "a directory that others can write", want: "/run has owner 0 and mode 0777: want owner 0, not writable by others",
		prepare: func(_ *testing.T, dir string) error { return os.Chmod(dir+"/run", 0o777) }},
	{name: "a directory of another user", want: "/run has owner 65534",
		prepare: func(_ *testing.T, dir string) error { return os.Chown(dir+"/run", 65534, 65534) }},
	{name: "a directory above that others can write", want: "another user could replace the socket: choose another path",
		prepare: func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777) }},
	{name: "such a directory, and none of the socket", listen: "DIR/absent/below/shim.sock", want: "another user could replace the socket",
		prepare: func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777) }},
	{name: "a file as the directory", listen: "DIR/shim.yaml/shim.sock", want: "shim.yaml"},
	{name: "a file above the directory", listen: "DIR/shim.yaml/run/shim.sock", want: "not a directory"},
	{name: "another shim", want: "is locked by another process, a shim or an agent: stop it", atStart: true,
		prepare: func(t *testing.T, dir string) error {
			l, err := cri.Listen(dir + "/run/shim.sock")
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}},
	{name: "another process", want: "/run/shim.sock is in use by another process: stop it", atStart: true,
		prepare: func(t *testing.T, dir string) error {
			l, err := net.Listen("unix", dir+"/run/shim.sock")
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}},
}

// TestShim_StartErrors: each cause ends the start with exit code 1, and config check and install find it
// before a kubelet is configured with the shim.
func TestShim_StartErrors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, which owns the directories above")
	}
	for _, tt := range startErrors {
		t.Run(tt.name, func(t *testing.T) {
			dir := shortDir(t)
			in := func(text, otherwise string) string {
				if text == "" {
					text = otherwise
				}
				return strings.ReplaceAll(text, "DIR", dir)
			}
			file := filepath.Join(dir, "shim.yaml")
			text := "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n" +
				"listen: " + in(tt.listen, "DIR/run/shim.sock") + "\nruntimeEndpoint: " + in(tt.runtime, "DIR/runtime.sock") + "\n" +
				"node: {clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: \"\", nodeName: worker}\n"
			must.Succeed(t, errors.Join(os.Mkdir(dir+"/run", 0o700), os.WriteFile(file, []byte(text), 0o600)))
			if tt.prepare != nil {
				must.Succeed(t, tt.prepare(t, dir))
			}
			commands := []string{"shim --config " + file}
			if !tt.atStart {
				commands = append(commands, "config check "+file)
				i, err := install.Node{Root: "/", Config: file, KubeletUnit: "kubelet.service", DryRun: true}.Installer()
				if err == nil {
					err = i.Install(t.Context(), io.Discard)
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("install: %v, want %q", err, tt.want)
				}
			}
			for _, command := range commands {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a shim that starts
				var out bytes.Buffer
				code := run(ctx, strings.Fields(command), nil, &out, &out)
				cancel()
				if code != 1 || !strings.Contains(out.String(), tt.want) {
					t.Errorf("%s: exit code %d, want %q:\n%s", command, code, tt.want, out.String())
				}
			}
		})
	}
}

// shortDir returns a directory for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "shim"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
