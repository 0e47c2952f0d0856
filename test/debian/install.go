// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Install installs the packages of a program if the program is missing. A test that runs in a
// network namespace of its own calls it before it enters that.
func Install(t testing.TB, program string, packages ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		InstallPackages(t, packages...)
	}
}

// InstallPackages installs packages. It skips the test where it cannot: elsewhere than on Linux,
// and without root.
func InstallPackages(t testing.TB, packages ...string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skipf("needs %s, which only root can install, on Debian", strings.Join(packages, ", "))
	}
	must.Succeed(t, AptInstall(packages...))
}

// AptInstall installs packages.
func AptInstall(packages ...string) error {
	args := append([]string{"install", "-y", "--no-upgrade", "--no-install-recommends", "-oDPkg::Lock::Timeout=300"}, packages...)
	if aptGet(args...).Run() == nil {
		return nil
	}
	_ = aptGet("update").Run() // install reports the error
	if out, err := aptGet(args...).CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %q: %w\n%s", args, err, out)
	}
	return nil
}

// aptGet returns an apt-get command that waits for those of other packages' tests. For other
// processes, such as the daily upgrade, apt-get waits only in install, with an option, and not in
// update. RUNLEVEL=1 keeps the servers of the packages from starting
// (invoke-rc.d(8)).
func aptGet(args ...string) *exec.Cmd {
	cmd := exec.Command("flock", append([]string{os.TempDir(), "apt-get"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	return cmd
}
