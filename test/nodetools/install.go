// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// required are the programs that the tests run, and their Debian packages.
var required = []struct{ program, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{bridgePlugin, "containernetworking-plugins"},
	{"ip", "iproute2"},
	{"gcc", "gcc"},
	{"gcc", "libc6-dev"},
	{"musl-gcc", "musl-tools"},
	{"strace", "strace"},
}

const bridgePlugin = "/usr/lib/cni/bridge"

// Install installs the missing tools, as root on Debian.
func Install(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces and containers")
	}
	var missing []string
	for _, tool := range required {
		if _, err := exec.LookPath(tool.program); err != nil {
			missing = append(missing, tool.pkg)
		}
	}
	if busybox() == "" {
		missing = append(missing, "busybox-static")
	}
	if missing != nil {
		debian.InstallPackages(t, missing...)
	}
}

// BuildContainerd returns the directories with a containerd of the newest release line and
// its shim, for $PATH. Debian's is of the line before: it lacks GetContainerEvents and
// RuntimeConfig, and treats an empty DNS configuration differently.
func BuildContainerd(t testing.TB) string {
	t.Helper()
	var dirs []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2"} {
		dirs = append(dirs, filepath.Dir(process.BuildTool(t, "test/containerd", program)))
	}
	return strings.Join(dirs, ":")
}

// BuildRunc returns the directory with a runc of the newest release line, for $PATH. Debian's has no
// user namespaces: those need 1.2. A part of runc is C.
func BuildRunc(t testing.TB) string {
	t.Helper()
	return filepath.Dir(process.BuildTool(t, "test/runc", "runc", "CGO_ENABLED=1"))
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
