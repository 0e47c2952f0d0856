// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
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
)

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
	err := filepath.WalkDir(string(root), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[path] = info.Mode().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range read(t, root) {
		all[filepath.Join(string(root), path)] += " " + text
	}
	return all
}
