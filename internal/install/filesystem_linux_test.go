// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
)

// shimUnits are the units of the package.
var shimUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service", "dnsconfigurer-bypass.service"}

// TestInstall_FileSystem: on a file system that is read-only or full the error says so, and the units
// that were not enabled before are not.
func TestInstall_FileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	debian.Install(t, "systemctl", "systemd")
	readOnly := func(t *testing.T, root string) {
		if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
	full := func(t *testing.T, root string) {
		if err := os.WriteFile(filepath.Join(root, "full"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("%v, want %v", err, unix.ENOSPC)
		}
	}
	for _, tt := range []struct {
		name, want string
		fill       func(t *testing.T, root string)
	}{
		{"read-only", "/var/lib/dnsconfigurer/install.json cannot be written: read-only file system", readOnly},
		{"full", "writing ROOT/var/lib/dnsconfigurer/install.json", full},
	} {
		for _, enabled := range [][]string{nil, shimUnits[:1], shimUnits[2:], shimUnits} {
			t.Run(tt.name+", enabled "+strings.Join(enabled, " "), func(t *testing.T) {
				root, systemctl := unitRoot(t)
				for _, unit := range enabled {
					systemctl("enable", unit)
				}
				tt.fill(t, string(root))
				before := read(t, root)
				i := installer(root)
				i.Systemctl.Program = "systemctl"
				err := i.Install(t.Context())
				if want := strings.ReplaceAll(tt.want, "ROOT", string(root)); err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
				for _, unit := range shimUnits {
					if got := systemctl("is-enabled", unit) == "enabled"; got != slices.Contains(enabled, unit) {
						t.Errorf("%s is enabled: %t", unit, got)
					}
				}
				if after := read(t, root); !maps.Equal(after, before) {
					t.Errorf("after:\n%v\nbefore:\n%v", after, before)
				}
			})
		}
	}
}

// unitRoot returns a small file system of a node with the units of the shim, and a function that
// calls systemctl there and returns its output.
func unitRoot(t *testing.T) (root install.Root, systemctl func(command, unit string) string) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n := kubeadmNode.with(node{"/etc/systemd/system/other.service": "", "/var/lib/dnsconfigurer/other": ""})
	for _, unit := range shimUnits {
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", unit))
		if err != nil {
			t.Fatal(err)
		}
		n["/usr/lib/systemd/system/"+unit] = string(text)
	}
	n.writeTo(t, dir)
	return install.Root(dir), func(command, unit string) string {
		out, _ := exec.Command("systemctl", "--root="+dir, command, unit).Output()
		return strings.TrimSpace(string(out))
	}
}
