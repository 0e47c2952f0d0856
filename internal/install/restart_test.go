// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
)

// systemctlScript keeps the state of a kubelet in the files active and invocation of its directory, and
// appends the other calls to the file calls. If there is a file crash, the kubelet is restarted just before
// systemd reads the units again.
const systemctlScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1" in
show) echo "ActiveState=$(cat active)"; echo "InvocationID=$(cat invocation)"; exit ;;
daemon-reload) if [ -e crash ]; then echo "$(cat invocation)+" >invocation; fi ;;
restart) echo "$(cat invocation)+" >invocation ;;
esac
echo "$1" >>calls
`

// fakeSystemd is a systemctl with a kubelet that runs.
type fakeSystemd struct {
	t   *testing.T
	dir string
}

func newFakeSystemd(t *testing.T) fakeSystemd {
	f := fakeSystemd{t, t.TempDir()}
	f.set("systemctl", systemctlScript)
	f.set("active", "active\n")
	f.set("invocation", "1\n")
	f.set("calls", "")
	return f
}

func (f fakeSystemd) set(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

// calls reports whether systemctl was called with a command since the last call of calls.
func (f fakeSystemd) calls(command string) bool {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "calls"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.set("calls", "")
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == command {
			return true
		}
	}
	return false
}

// runningInstaller returns an installer of a node with a kubelet that runs.
func runningInstaller(root install.Root, f fakeSystemd) *install.Installer {
	i := installer(root)
	i.Running = true
	i.Systemctl.Program = filepath.Join(f.dir, "systemctl")
	i.Check = func(context.Context) error { return nil }
	return i
}

// TestInstall_Restart: --restart-kubelet restarts a kubelet that was configured before and has not been
// restarted since, and no other.
func TestInstall_Restart(t *testing.T) {
	systemd := newFakeSystemd(t)
	i := runningInstaller(kubeadmNode.write(t), systemd)
	for _, step := range []struct {
		name          string
		restart, want bool
	}{
		{"the first installation", false, false},
		{"again", false, false},
		{"again, with a restart", true, true},
		{"a second restart", true, false},
	} {
		i.RestartKubelet = step.restart
		if err := i.Install(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := systemd.calls("restart"); got != step.want {
			t.Errorf("%s: restarted: %v, want %v", step.name, got, step.want)
		}
	}
}

// TestInstall_RestartMeanwhile: a kubelet that systemd restarts during the installation is the old one: it may have
// read the configuration before the edits.
func TestInstall_RestartMeanwhile(t *testing.T) {
	systemd := newFakeSystemd(t)
	systemd.set("crash", "")
	i := runningInstaller(kubeadmNode.write(t), systemd)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.RestartKubelet = true
	if err := i.Install(t.Context()); err != nil || !systemd.calls("restart") {
		t.Errorf("the kubelet is not restarted: %v", err)
	}
}

// TestUninstall_Restart: the shim is stopped only when the kubelet that used it has ended.
func TestUninstall_Restart(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*install.Installer, fakeSystemd) // of the kubelet that uses the shim
	}{
		{"by the command", func(i *install.Installer, _ fakeSystemd) { i.RestartKubelet = true }},
		{"by others", func(_ *install.Installer, f fakeSystemd) { f.set("invocation", "3\n") }},
		{"it was stopped", func(_ *install.Installer, f fakeSystemd) { f.set("active", "inactive\n") }},
		{"it failed", func(_ *install.Installer, f fakeSystemd) { f.set("active", "failed\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			systemd := newFakeSystemd(t)
			root := kubeadmNode.write(t)
			before := read(t, root)
			i := runningInstaller(root, systemd)
			if err := i.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			systemd.set("invocation", "2\n") // restarted, and uses the shim
			systemd.calls("")                // forget those of the installation
			for call := range 3 {
				if stopped, err := i.Uninstall(t.Context()); err != nil || stopped || systemd.calls("disable") {
					t.Fatalf("call %d has stopped the shim under the kubelet that uses it: %v", call, err)
				}
			}
			tt.end(i, systemd)
			if stopped, err := i.Uninstall(t.Context()); err != nil || !stopped || !systemd.calls("disable") {
				t.Errorf("the kubelet has ended: stopped %v, %v", stopped, err)
			}
			if after := read(t, root); !maps.Equal(after, before) {
				t.Errorf("after the removal:\n%v\nbefore the installation:\n%v", after, before)
			}
		})
	}
}

// TestUninstall_Unclear: the shim is not stopped if the kubelet may use it: one that systemd restarts
// during the removal, and one of which systemd reports no invocation.
func TestUninstall_Unclear(t *testing.T) {
	for _, tt := range []struct {
		name    string
		unclear func(fakeSystemd)
		fails   bool
	}{
		{"restarted meanwhile", func(f fakeSystemd) { f.set("crash", "") }, false},
		{"no invocation", func(f fakeSystemd) { f.set("invocation", "\n") }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			systemd := newFakeSystemd(t)
			i := runningInstaller(kubeadmNode.write(t), systemd)
			if err := i.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			systemd.set("invocation", "2\n") // restarted, and uses the shim
			tt.unclear(systemd)
			stopped, err := i.Uninstall(t.Context())
			if (err != nil) != tt.fails || stopped || systemd.calls("disable") {
				t.Errorf("stopped %v, %v", stopped, err)
			}
		})
	}
}

// TestUninstall_Reinstalled: an installation after an incomplete removal is complete.
func TestUninstall_Reinstalled(t *testing.T) {
	systemd := newFakeSystemd(t)
	root := kubeadmNode.write(t)
	i := runningInstaller(root, systemd)
	steps := []func() error{
		func() error { return i.Install(t.Context()) },
		func() error { _, err := i.Uninstall(t.Context()); return err },
		func() error { return i.Install(t.Context()) },
	}
	for n, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
	}
	if text := read(t, root)[ownUnit]; !strings.Contains(text, flag) {
		t.Errorf("the kubelet is not configured with the shim:\n%s", text)
	}
	i.RestartKubelet = true
	if stopped, err := i.Uninstall(t.Context()); err != nil || !stopped {
		t.Errorf("stopped %v, %v", stopped, err)
	}
}
