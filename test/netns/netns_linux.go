// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// variable is the environment variable with the name of the test that runs in a namespace.
const variable = "DNSCONFIGURER_TEST_NETNS"

// Enter reports whether the test runs in a network namespace of its own. If it does not, Enter
// runs it there, in another process and in parallel with others, and the test must return. In a new
// namespace only the loopback interface exists, and it is down.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("the test did not run:\n%s", out)
	}
	return false
}

// Run runs commands of one line each, such as "ip link set lo up", in the namespace.
func Run(t testing.TB, lines ...string) {
	t.Helper()
	for _, line := range lines {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// A Pod is a network namespace behind a veth pair, as that of a pod. The node has the address
// 10.244.0.1 in its network, the pod 10.244.0.2.
type Pod struct{ namespace *os.File }

// NewPod adds a pod to the namespace of the test.
func NewPod(t testing.TB) *Pod {
	t.Helper()
	p := &Pod{}
	created := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.namespace, err = os.Open("/proc/thread-self/ns/net")
		}
		created <- err
	}()
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.namespace.Close() })
	Run(t, "ip link add veth0 type veth peer name eth0",
		fmt.Sprintf("ip link set eth0 netns /proc/%d/fd/%d", os.Getpid(), p.namespace.Fd()),
		"ip address add 10.244.0.1/24 dev veth0", "ip link set veth0 up")
	p.Do(func() {
		Run(t, "ip link set lo up", "ip address add 10.244.0.2/24 dev eth0", "ip link set eth0 up", "ip route add default via 10.244.0.1")
	})
	return p
}

// Do calls f in the network of the pod. f must not start goroutines.
func (p *Pod) Do(f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Setns(int(p.namespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		panic(fmt.Sprintf("netns: entering the pod: %v", err))
	}
}

// RemoveIPv6 makes the process fail to open sockets of IPv6, as with a kernel that was started
// with ipv6.disable=1. It must be called after Enter, before the first use of package net.
func RemoveIPv6(t testing.TB) {
	t.Helper()
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// skipUnless skips n instructions unless the value loaded is k.
	skipUnless := func(k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
	}
	result := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{ // of struct seccomp_data: the system call and the low half of its first argument
		load(0), skipUnless(unix.SYS_SOCKET, 3), load(16), skipUnless(unix.AF_INET6, 1),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)),
		result(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		t.Fatal(errno)
	}
}
