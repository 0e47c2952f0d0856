// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInstall_ReadOnly: on a read-only file system the error names the file, and systemctl is not called.
func TestInstall_ReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	for directory, want := range map[string]string{
		"/etc/systemd/system": "/etc/systemd/system/dnsconfigurer-shim.service cannot be written: ",
		"/var/lib":            "/var/lib/dnsconfigurer/install.json cannot be written: ",
	} {
		root := kubeadmNode.write(t)
		mounted := filepath.Join(string(root), directory)
		if err := errors.Join(os.MkdirAll(mounted, 0o755), unix.Mount(mounted, mounted, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(mounted, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if err := unix.Mount("", mounted, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		i := installer(root)
		i.Systemctl.Program = "false"
		if err := i.Install(t.Context()); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "systemctl") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
