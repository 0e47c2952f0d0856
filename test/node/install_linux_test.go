// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"debug/elf"
	"os"
	"os/exec"
	"testing"
)

// tools are the programs that the test runs, and Debian's packages for them.
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

// install sees to it that the tools are there. It does nothing when they are.
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
	_ = aptGet("update").Run() // install says what is wrong
	if out, err := aptGet(args...).CombinedOutput(); err != nil {
		t.Fatalf("apt-get %q: %v\n%s", args, err, out)
	}
}

func aptGet(args ...string) *exec.Cmd {
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd
}

// busybox returns the path of a busybox that runs without libraries; "": there is
// none.
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
