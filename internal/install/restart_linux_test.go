// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// systemctlScript keeps the process ID of a kubelet in the file pid of its directory, and appends the other
// calls to the file calls. A restart ends the kubelet, and starts one with the environment of the drop-in.
const systemctlScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1" in
show) cat pid; exit ;;
restart) ./stop; ./start ;;
esac
echo "$1" >>calls
`

// stopScript ends the kubelet, if it runs: a process 0 would be the group of this test.
const stopScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
[ "$(cat pid)" = 0 ] || kill "$(cat pid)"
echo 0 >pid
`

// startScript starts a kubelet with the environment of the drop-in, if there is one, for a minute at most.
const startScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
shim=$(sed -n 's/^Environment=\(DNSCONFIGURER_SHIM=.*\)/\1/p' "$(cat dropin)" 2>/dev/null)
env -i $shim sleep 60 >/dev/null 2>&1 &
echo $! >pid
while [ "$(readlink /proc/$!/exe)" = "$(readlink /proc/$$/exe)" ]; do :; done # until it is sleep
`

// fakeSystemd is a systemctl with a kubelet that runs.
type fakeSystemd struct {
	t   *testing.T
	dir string
}

func newFakeSystemd(t *testing.T, root install.Root) fakeSystemd {
	f := fakeSystemd{t, t.TempDir()}
	f.set("systemctl", systemctlScript)
	f.set("start", startScript)
	f.set("stop", stopScript)
	f.set("dropin", filepath.Join(string(root), ownUnit))
	f.set("calls", "")
	f.run("start")
	t.Cleanup(func() { f.run("stop") })
	return f
}

func (f fakeSystemd) set(name, text string) {
	f.t.Helper()
	must.Succeed(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o700))
}

func (f fakeSystemd) run(name string, args ...string) {
	f.t.Helper()
	if out, err := exec.Command(filepath.Join(f.dir, name), args...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// calls reports whether systemctl was called with a command since the last call of calls.
func (f fakeSystemd) calls(command string) bool {
	f.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(f.dir, "calls")))(f.t)
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

// TestInstall_Restart: --restart-kubelet restarts a kubelet that was not started with the drop-in, and no
// other.
func TestInstall_Restart(t *testing.T) {
	root := kubeadmNode.write(t)
	systemd := newFakeSystemd(t, root)
	i := runningInstaller(root, systemd)
	for _, step := range []struct {
		name                 string
		restart, want, waits bool
	}{
		{"the first installation", false, false, true},
		{"again", false, false, true},
		{"again, with a restart", true, true, false},
		{"a second restart", true, false, false},
	} {
		i.RestartKubelet = step.restart
		var out strings.Builder
		err := i.Install(t.Context(), &out)
		if waits := strings.Contains(out.String(), "after: systemctl restart kubelet.service"); err != nil || waits != step.waits {
			t.Fatalf("%s: %v, the kubelet awaits a restart: %v", step.name, err, waits)
		}
		if got := systemd.calls("restart"); got != step.want {
			t.Errorf("%s: restarted: %v, want %v", step.name, got, step.want)
		}
	}
}

// TestUninstall_Restart: the shim is stopped only when the kubelet that used it has ended.
func TestUninstall_Restart(t *testing.T) {
	for name, end := range map[string]func(*install.Installer, fakeSystemd){ // of the kubelet that uses the shim
		"by the command": func(i *install.Installer, _ fakeSystemd) { i.RestartKubelet = true },
		"by others":      func(_ *install.Installer, f fakeSystemd) { f.run("systemctl", "restart") },
		"it has ended":   func(_ *install.Installer, f fakeSystemd) { f.run("stop") },
	} {
		t.Run(name, func(t *testing.T) {
			root := kubeadmNode.write(t)
			systemd := newFakeSystemd(t, root)
			before := read(t, root)
			i := runningInstaller(root, systemd)
			must.Succeed(t, i.Install(t.Context(), io.Discard))
			systemd.run("systemctl", "restart") // uses the shim
			systemd.calls("")                   // forget the calls of the installation
			for call := range 3 {
				if stopped, err := uninstall(t, i); err != nil || stopped || systemd.calls("disable") {
					t.Fatalf("call %d has stopped the shim under the kubelet that uses it: %v", call, err)
				}
			}
			end(i, systemd)
			if stopped, err := uninstall(t, i); err != nil || !stopped || !systemd.calls("disable") {
				t.Errorf("the kubelet has ended: stopped %v, %v", stopped, err)
			}
			if after := read(t, root); !maps.Equal(after, before) {
				t.Errorf("after the removal:\n%v\nbefore the installation:\n%v", after, before)
			}
		})
	}
}

// TestUninstall_Unclear: the shim is not stopped if the process of the kubelet cannot be examined.
func TestUninstall_Unclear(t *testing.T) {
	root := kubeadmNode.write(t)
	systemd := newFakeSystemd(t, root)
	i := runningInstaller(root, systemd)
	must.Succeed(t, i.Install(t.Context(), io.Discard))
	systemd.run("stop")
	systemd.set("pid", "2147483647\n") // is not the ID of a process
	defer systemd.set("pid", "0\n")
	if stopped, err := uninstall(t, i); err == nil || stopped || systemd.calls("disable") {
		t.Errorf("stopped %v, %v", stopped, err)
	}
	if text := read(t, root)[ownUnit]; !strings.Contains(text, flag) {
		t.Errorf("the kubelet is not configured with the shim any more:\n%s", text)
	}
}

// changes are the system calls that change files or make changes durable.
var changes = []string{"mkdirat", "openat", "write", "fchmod", "fsync", "renameat", "unlinkat"}

// killed names the child process of the test, and what it does: a call and a root directory.
const killed = "TEST_KILLED"

// TestInstall_Killed kills install and uninstall at each system call that changes files. Whether it is
// then installed again or not, uninstall leaves the files and directories as they were.
func TestInstall_Killed(t *testing.T) {
	if call, root, isChild := strings.Cut(os.Getenv(killed), ":"); isChild {
		goruntime.LockOSThread() // strace counts the calls of each thread
		changeNode(t, call, install.Root(root))
		return
	}
	debian.Install(t, "strace", "strace")
	n := plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d --config=" + config).with(node{config: kind,
		"/etc/systemd/system/other.service": "", "/etc/kubelet.d/10.conf": kind})
	for _, call := range []string{"install", "uninstall"} {
		for _, next := range []string{"install uninstall", "uninstall"} {
			kills := 0
			for _, change := range changes {
				for at := 1; ; at++ {
					root := n.write(t)
					before := tree(t, root)
					if call == "uninstall" {
						changeNode(t, "install", root)
					}
					if !killAt(t, change, at, call, root) {
						break
					}
					kills++
					for _, again := range strings.Fields(next) {
						changeNode(t, again, root)
					}
					if after := tree(t, root); !maps.Equal(after, before) {
						t.Errorf("%s, killed at %s %d, and then %s:\n%v\nbefore:\n%v", call, change, at, next, after, before)
					}
				}
			}
			t.Logf("%s was killed %d times before %s", call, kills, next)
		}
	}
}

// killAt runs a call in a child process that is killed at the system call with this number. It reports
// whether there was one.
func killAt(t *testing.T, change string, at int, call string, root install.Root) bool {
	t.Helper()
	cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+change,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", change, at), os.Args[0], "-test.run=^TestInstall_Killed$")
	cmd.Env = append(os.Environ(), killed+"="+call+":"+string(root))
	out, err := cmd.CombinedOutput()
	if failure, ok := errors.AsType[*exec.ExitError](err); ok && failure.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func changeNode(t *testing.T, call string, root install.Root) {
	t.Helper()
	err := error(nil)
	if call == "install" {
		err = installer(root).Install(t.Context(), io.Discard)
	} else {
		err = installer(root).Uninstall(t.Context(), io.Discard)
	}
	if err != nil {
		t.Errorf("%s: %v", call, err)
	}
}

// tree returns the modes of all files and directories, and the texts of the files.
func tree(t *testing.T, root install.Root) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Succeed(t, filepath.WalkDir(string(root), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[path] = info.Mode().String()
		}
		return err
	}))
	for path, text := range read(t, root) {
		all[filepath.Join(string(root), path)] += " " + text
	}
	return all
}
