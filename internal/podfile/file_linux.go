// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File is an open resolv.conf of a sandbox.
type File struct{ f *os.File }

// Open opens the file at path, which must be
//
//	DIRECTORY/SANDBOX/resolv.conf           as with containerd
//	DIRECTORY/SANDBOX/userdata/resolv.conf  as with CRI-O
//
// for one of directories. No link below the directory is followed. The file must be a regular
// file without another name.
func Open(directories []string, sandbox, path string) (*File, error) {
	return open(directories, sandbox, path, 0)
}

// Create creates the file at path, which must not exist, in a directory of the sandbox that
// exists. Containers that run keep the file that was removed; those that are created later get
// the new one. All users may read it, whatever the umask is: that of the shim's unit is 0077.
func Create(directories []string, sandbox, path string) (*File, error) {
	f, err := open(directories, sandbox, path, unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err := f.f.Chmod(0o644); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func open(directories []string, sandbox, path string, create int) (*File, error) {
	directory, names, err := split(directories, sandbox, path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i, name := range names {
		if err != nil {
			break
		}
		flags := unix.O_PATH | unix.O_DIRECTORY
		if i == len(names)-1 {
			flags = unix.O_RDWR | unix.O_NONBLOCK | create // the open of a FIFO does not block
		}
		parent := fd
		fd, err = unix.Openat(parent, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		unix.Close(parent)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := &File{os.NewFile(uintptr(fd), path)}
	if err := f.check(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// split returns the directory that path is in, and the names from it to the file.
func split(directories []string, sandbox, path string) (directory string, names []string, err error) {
	for _, d := range directories {
		rest, ok := strings.CutPrefix(path, filepath.Clean(d)+"/"+sandbox+"/")
		if !ok || sandbox == "" || sandbox == "." || sandbox == ".." || strings.Contains(sandbox, "/") {
			continue
		}
		switch rest {
		case "resolv.conf":
			return d, []string{sandbox, rest}, nil
		case "userdata/resolv.conf":
			return d, []string{sandbox, "userdata", "resolv.conf"}, nil
		}
	}
	return "", nil, fmt.Errorf("%q: %w", path, ErrForeign)
}

func (f *File) check() error {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.f.Fd()), &s); err != nil {
		return &fs.PathError{Op: "stat", Path: f.f.Name(), Err: err}
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s: not a regular file: %w", f.f.Name(), ErrForeign)
	case s.Nlink != 1:
		return fmt.Errorf("%s: has %d names, want 1: %w", f.f.Name(), s.Nlink, ErrForeign)
	}
	return nil
}

// creationTime is the longest time in which a runtime writes a file that it creates: a tick of a slow
// kernel clock. Files of containerd had both times in the same tick, at a load of 17, too. No container
// writes as early: the runtime starts two of them first, and runc needed 66 ms or more.
const creationTime = 10 * time.Millisecond

// IsAsCreated reports whether nothing has written the file since the runtime created it. A pod can set
// the time of the last modification, but not that of the last change (statx(2)). The result is false if
// the file system does not keep the time of creation.
func (f *File) IsAsCreated() bool {
	const times = unix.STATX_BTIME | unix.STATX_CTIME
	var s unix.Statx_t
	if err := unix.Statx(int(f.f.Fd()), "", unix.AT_EMPTY_PATH, times, &s); err != nil || s.Mask&times != times {
		return false
	}
	created, changed := time.Unix(s.Btime.Sec, int64(s.Btime.Nsec)), time.Unix(s.Ctime.Sec, int64(s.Ctime.Nsec))
	age := changed.Sub(created)
	return age >= 0 && age <= creationTime
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Read returns the text of the file. The error is ErrTooLarge if it has more than MaxSize bytes.
func (f *File) Read() ([]byte, error) {
	text := make([]byte, MaxSize+1)
	n, err := f.f.ReadAt(text, 0)
	switch {
	case n > MaxSize:
		return nil, fmt.Errorf("%s: %w", f.f.Name(), ErrTooLarge)
	case err != io.EOF:
		return nil, err
	}
	return text[:n], nil
}

// Replace replaces the text old by dns, in place, and records original, the text of the
// container runtime. If it fails, the file has not changed, or is [Unfinished].
//
// A change of the pod between the last comparison and the write is lost: there is no lock that
// a pod takes. The time between both is that of two system calls.
func (f *File) Replace(old []byte, dns string, original []byte) error {
	texts, err := compose([]byte(dns), original, old, false)
	return f.overwrite(old, texts, err)
}

// Restore replaces the text old by original, the text of the container runtime, in place. The
// file keeps its size or grows. If it fails, the file has not changed, or is [Unfinished].
func (f *File) Restore(old, original []byte) error {
	texts, err := compose(original, original, old, true)
	return f.overwrite(old, texts, err)
}

// overwrite replaces the text old by texts, one after another, unless compose has returned an error. They have the
// same size and are not shorter. A write of at most one page is complete, even if the process is killed.
func (f *File) overwrite(old []byte, texts [][]byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", f.f.Name(), err)
	}
	// The space is reserved before the write, which then cannot fail on a full disk. Some file
	// systems, such as ramfs, cannot reserve it.
	err = unix.Fallocate(int(f.f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(texts[0])))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return &fs.PathError{Op: "fallocate", Path: f.f.Name(), Err: err}
	}
	current, err := f.Read()
	switch {
	case err != nil:
		return err
	case !bytes.Equal(current, old):
		return fmt.Errorf("%s: %w", f.f.Name(), ErrChanged)
	}
	for _, text := range texts {
		if _, err := f.f.WriteAt(text, 0); err != nil {
			return err
		}
	}
	return nil
}

// Touch sets the time of the last change. glibc reads the file again when its time differs, and
// Linux sets the time before it copies the data: a reader between both would keep a mixture of
// two texts.
func (f *File) Touch() error {
	now := unix.NsecToTimeval(time.Now().UnixNano())
	if err := unix.Futimes(int(f.f.Fd()), []unix.Timeval{now, now}); err != nil {
		return &fs.PathError{Op: "futimes", Path: f.f.Name(), Err: err}
	}
	return nil
}

// uptime returns the time of CLOCK_MONOTONIC, which relay and agent have in common: the kernel has
// one for all processes without a time namespace of their own, and container runtimes give pods
// none. A time.Time has it, too, but loses it on the way to another process.
func uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0 // it fails for unknown clocks alone
	}
	return time.Duration(t.Nano())
}

// IsDeleted reports whether a directory has no name any more: it was removed on the node, and this process still
// has its mount.
func IsDeleted(directory fs.FileInfo) bool {
	s, ok := directory.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}
