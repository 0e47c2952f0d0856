// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tools are the programs that the tests run, and their Debian packages.
var tools = []struct{ program, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{bridgePlugin, "containernetworking-plugins"},
	{"ip", "iproute2"},
	{"gcc", "gcc"},
	{"gcc", "libc6-dev"},
	{"musl-gcc", "musl-tools"},
}

const bridgePlugin = "/usr/lib/cni/bridge"

// install installs the missing tools.
func install(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces and containers")
	}
	var missing []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.program); err != nil {
			missing = append(missing, tool.pkg)
		}
	}
	if busybox() == "" {
		missing = append(missing, "busybox-static")
	}
	if missing == nil {
		return
	}
	args := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if aptGet(args...).Run() == nil {
		return
	}
	_ = aptGet("update").Run() // install reports the error
	if out, err := aptGet(args...).CombinedOutput(); err != nil {
		t.Fatalf("apt-get %q: %v\n%s", args, err, out)
	}
}

// aptGet returns an apt-get command that waits for those of other packages' tests:
// apt-get does not wait for its locks.
func aptGet(args ...string) *exec.Cmd {
	cmd := exec.Command("flock", append([]string{os.TempDir(), "apt-get"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd
}

// buildKubelet returns the path of a kubelet. Go keeps it in its build cache, with the
// packages that it shares with the tests of test/cluster.
func buildKubelet(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(runGo(t, "test/cluster", "tool", "-n", "kubelet"))
}

// buildContainerd returns a directory with a containerd of the newest release line.
// Debian's is of the line before: it lacks GetContainerEvents and RuntimeConfig, and
// treats an empty DNS configuration differently.
func buildContainerd(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	runGo(t, "test/containerd", "build", "-o", dir+"/", "tool")
	return dir
}

// runGo runs the go command in a directory of the repository and returns its output.
func runGo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	start := time.Now()
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..", dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s: %s: %v\n%s", dir, cmd, err, &problems)
	}
	t.Logf("in %s: %s took %v", dir, strings.Join(cmd.Args, " "), time.Since(start).Round(time.Second))
	return string(out)
}

// busybox returns the path of a statically linked busybox, "" if there is none.
func busybox() string {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if f.Section(".interp") != nil {
		return ""
	}
	return path
}
