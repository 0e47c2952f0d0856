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

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// hostname is the hostname in the namespaces, with a domain: glibc searches it when the
// file has no search list.
const hostname, hostDomain = "here.host.example", "host.example"

// isolate moves the goroutine of t, and each process and socket that it creates later,
// into new namespaces with only a loopback interface, and replaces /etc there with a new
// directory. It returns the path of resolv.conf in that directory.
func isolate(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces")
	}
	etc := t.TempDir()
	runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
	must.Succeed(t, enter(etc))
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

// loopbackUp adds 127.0.0.0/8 and ::1 to the namespace (netdevice(7)).
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

// crashed reports whether err is from a process that ended by a failed assertion, a
// division by zero, or the limit on processor time for one that hangs.
func crashed(err error) bool {
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
