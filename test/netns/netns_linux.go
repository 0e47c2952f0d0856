// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
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
	t.Parallel()
	return EnterSerial(t)
}

// EnterSerial is Enter for a test that does not run in parallel with others, and so may have set
// environment variables for the other process.
func EnterSerial(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("the test did not run:\n%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
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

// AddIPv6 adds addresses to the loopback interface, and waits for their routes: the kernel adds them a little later.
func AddIPv6(t testing.TB, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		Run(t, "ip address add "+addr+"/128 dev lo nodad")
		poll.Until(t, "the route to "+addr, func() bool {
			routes, err := exec.Command("ip", "-6", "route", "show", "table", "local", addr).CombinedOutput()
			if err != nil {
				t.Fatalf("ip route: %v\n%s", err, routes)
			}
			return len(routes) > 0
		})
	}
}

// A Pod is a network namespace behind a veth pair, as that of a pod.
type Pod struct {
	Node, Addr string // addresses in the network of the pod
	namespace  *os.File
}

// NewPod adds pod n, which is at most 255, to the namespace of the test. The node has the address
// 10.244.n.1 in its network, the pod 10.244.n.2.
func NewPod(t testing.TB, n int) *Pod {
	t.Helper()
	p := &Pod{Node: fmt.Sprintf("10.244.%d.1", n), Addr: fmt.Sprintf("10.244.%d.2", n)}
	must.Succeed(t, inNamespace(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		p.namespace, err = os.Open(threadNamespace)
		return err
	}))
	t.Cleanup(func() { p.namespace.Close() })
	link := fmt.Sprintf("veth%d", n)
	Run(t, "ip link add "+link+" type veth peer name eth0",
		fmt.Sprintf("ip link set eth0 netns /proc/%d/fd/%d", os.Getpid(), p.namespace.Fd()),
		"ip address add "+p.Node+"/24 dev "+link, "ip link set "+link+" up")
	p.Do(func() {
		Run(t, "ip link set lo up", "ip address add "+p.Addr+"/24 dev eth0", "ip link set eth0 up", "ip route add default via "+p.Node)
	})
	return p
}

// Do calls f in the network of the pod. f must not start goroutines.
func (p *Pod) Do(f func()) {
	err := In(p.namespace, func() error {
		f()
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("netns: entering the pod: %v", err))
	}
}

// In calls f in a network namespace, such as the file /proc/PID/ns/net. f must not start goroutines.
func In(namespace *os.File, f func() error) error {
	return inNamespace(func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET) }, f)
}

// threadNamespace is the network namespace of the calling thread.
const threadNamespace = "/proc/thread-self/ns/net"

// inNamespace calls f in the namespace that enter enters. The thread returns to its own namespace, and does
// not end: that would end the processes with a Pdeathsig which it has started.
func inNamespace(enter, f func() error) error {
	runtime.LockOSThread()
	own, err := os.Open(threadNamespace)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err = enter(); err == nil {
		err = f()
	}
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked
	}
	runtime.UnlockOSThread()
	return err
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
