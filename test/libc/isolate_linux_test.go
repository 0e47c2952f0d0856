// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// hostname is the name of the host in the namespaces, with a domain: glibc
// searches that when the file names none.
const hostname, hostDomain = "here.host.example", "host.example"

// isolate puts the goroutine of t, and each process and socket it makes from then
// on, into new namespaces with nothing but a loopback interface, and puts a new
// directory in the place of /etc there. It returns the path of resolv.conf in
// that directory.
func isolate(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces")
	}
	etc := t.TempDir()
	runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
	if err := enter(etc); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(etc, "resolv.conf")
}

func enter(etc string) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount(etc, "/etc", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %q on /etc: %w", etc, err)
	}
	if err := syscall.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set the hostname: %w", err)
	}
	return loopbackUp()
}

// loopbackUp gives the namespace 127.0.0.0/8 and ::1, see netdevice(7).
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer syscall.Close(fd)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o'}, flags: syscall.IFF_UP}
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return fmt.Errorf("set lo up: %w", errno)
	}
	return nil
}

// killed tells whether err is that of a process which died of itself: of an
// assertion, a division by 0, or the limit on computing for one that hangs.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	s := status.Signal()
	return s == syscall.SIGABRT || s == syscall.SIGFPE || s == syscall.SIGVTALRM
}
