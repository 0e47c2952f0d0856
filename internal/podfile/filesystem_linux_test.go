// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
)

// fileSystem is a kind of file system on which a runtime may keep its files.
type fileSystem struct {
	name, pkg string // the Debian package of mkfs; "": there is no disk
	size      int64  // of the smallest disk that mkfs accepts
	canFill   bool   // its size is limited, and space can be reserved
	hasFlags  bool   // chattr(1)
}

var fileSystems = []fileSystem{
	{"ext4", "e2fsprogs", 8 << 20, true, true},
	{"xfs", "xfsprogs", 320 << 20, true, true},
	{"btrfs", "btrfs-progs", 128 << 20, true, true}, // writes to new space, also where the old text was
	{"overlay", "", 0, true, false},
	{"ramfs", "", 0, false, false}, // has no fallocate(2)
}

// TestFileSystems replaces the text on real file systems: as always, with an owner and a mode of the
// runtime, while a pod protects the file, and while the disk is full.
func TestFileSystems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	for _, s := range fileSystems {
		t.Run(s.name, func(t *testing.T) {
			directory := s.mount(t)
			replaceAndCreate(t, directory)
			if s.hasFlags {
				replaceProtected(t, directory, "i")
				replaceProtected(t, directory, "a")
			}
			if s.canFill {
				replaceOnFullDisk(t, directory, kubeletText)
				replaceOnFullDisk(t, directory, "")
			}
		})
	}
}

// mount returns a directory with the file system.
func (s fileSystem) mount(t *testing.T) (directory string) {
	t.Helper()
	directory = t.TempDir()
	switch {
	case s.pkg != "":
		debian.Install(t, "mkfs."+s.name, s.pkg)
		disk := filepath.Join(t.TempDir(), "disk")
		if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, s.size)); err != nil {
			t.Fatal(err)
		}
		run(t, "mkfs."+s.name, "-q", disk)
		run(t, "mount", "-o", "loop", disk, directory)
	case s.name == "overlay":
		base := mountTmpfs(t, "4m")
		for _, name := range []string{"lower", "upper", "work"} {
			if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		options := strings.ReplaceAll("lowerdir=BASE/lower,upperdir=BASE/upper,workdir=BASE/work", "BASE", base)
		run(t, "mount", "-t", s.name, s.name, "-o", options, directory)
	default:
		run(t, "mount", "-t", s.name, s.name, directory)
	}
	t.Cleanup(func() { run(t, "umount", directory) })
	return directory
}

func run(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

// replaceAndCreate replaces and restores the text of a file with an owner and a mode of its own, as
// CRI-O gives it to a pod with a user namespace, and creates it again after it was removed.
func replaceAndCreate(t *testing.T, directory string) {
	t.Helper()
	const owner, mode = 1 << 17, 0o640
	path := newFile(t, directory, kubeletText)
	if err := errors.Join(os.Chown(path, owner, owner), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, directory, path)
	for i := range 4 {
		replaceNext(t, f, i)
	}
	old, err := f.Read()
	if err == nil {
		err = errors.Join(f.Restore(old, []byte(kubeletText)), f.Touch(), f.Close())
	}
	var s unix.Stat_t
	if err := errors.Join(err, unix.Stat(path, &s)); err != nil || s.Uid != owner || s.Gid != owner || s.Mode&0o7777 != mode {
		t.Errorf("%v, owner %d:%d, mode %o", err, s.Uid, s.Gid, s.Mode)
	}
	if text, err := os.ReadFile(path); err != nil || OriginOf(text) != Restored || !parsesAs(text, kubeletText) {
		t.Errorf("%v, the restored file:\n%s", err, text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f, err = Create([]string{directory}, sandbox, path)
	if err == nil {
		err = errors.Join(f.Replace(nil, firstDNS, []byte(kubeletText)), f.Close())
	}
	if text, readErr := os.ReadFile(path); errors.Join(err, readErr) != nil || !parsesAs(text, firstDNS) {
		t.Errorf("%v, the new file:\n%s", errors.Join(err, readErr), text)
	}
}

// replaceProtected sets an attribute of chattr(1) with which root cannot replace the text. It can be
// replaced when the attribute is gone.
func replaceProtected(t *testing.T, directory, attribute string) {
	t.Helper()
	path := newFile(t, directory, kubeletText)
	run(t, "chattr", "+"+attribute, path)
	_, err := Open([]string{directory}, sandbox, path)
	run(t, "chattr", "-"+attribute, path)
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("with the attribute %s: %v, want %v", attribute, err, unix.EPERM)
	}
	replaceNext(t, openFile(t, directory, path), 0)
}

// replaceOnFullDisk replaces the text of a file on a full disk: the file has the whole new text, or
// the old one if there is an error. With space on the disk it has the new one.
func replaceOnFullDisk(t *testing.T, directory, text string) {
	t.Helper()
	path := newFile(t, directory, text)
	f := openFile(t, directory, path)
	filled := fill(t, directory)
	err := f.Replace([]byte(text), firstDNS, []byte(kubeletText))
	got, readErr := os.ReadFile(path)
	switch {
	case readErr != nil:
		t.Fatal(readErr)
	case err == nil && OriginOf(got) != Written, err != nil && (!errors.Is(err, unix.ENOSPC) || string(got) != text):
		t.Errorf("%d bytes on a full disk: %v, the file has %q", len(text), err, got)
	}
	if err := os.RemoveAll(filled); err != nil {
		t.Fatal(err)
	}
	replaceNext(t, f, 1)
}

// fill reserves all space below directory, and returns the directory that has it.
func fill(t *testing.T, directory string) (filled string) {
	t.Helper()
	filled = filepath.Join(directory, "filled")
	if err := os.Mkdir(filled, 0o755); err != nil {
		t.Fatal(err)
	}
	size := int64(1 << 30)
	for n := 0; size > 0; n++ {
		f, err := os.Create(filepath.Join(filled, fmt.Sprint(n)))
		if err != nil {
			break // there is no space for an inode, either
		}
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
			size /= 2
		}
		f.Close()
	}
	return filled
}
