// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// patience limits each step, on a busy machine too.
const patience = 3 * time.Minute

// packages are those of the machine, apart from the smallest Debian.
const packages = "systemd,systemd-sysv,dbus,containerd,runc,containernetworking-plugins,iproute2"

// rootFS returns the directory with the file system of the machine, which it creates once.
func rootFS(t *testing.T) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "dnsconfigurer-test", "debian-bookworm-2")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	must.Succeed(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	part := dir + ".part" + strconv.Itoa(os.Getpid())
	defer os.RemoveAll(part)
	start := time.Now()
	run(t, "debootstrap", "--variant=minbase", "--include="+packages, "bookworm", part)
	t.Logf("debootstrap took %v", time.Since(start).Round(time.Second))
	must.Succeed(t, os.Rename(part, dir))
	return dir
}

// run runs a program and returns its output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// machine is a container that boots systemd.
type machine struct {
	root   string
	cgroup string    // of systemd-nspawn, which uses the names "payload" and "supervisor" in it
	cmd    *exec.Cmd // systemd-nspawn; nil: not running
	log    bytes.Buffer
	ended  chan struct{} // closed when systemd-nspawn has ended
	init   string        // process ID of the machine's systemd
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a container")
	}
	nodetools.Install(t)
	debian.Install(t, "debootstrap", "debootstrap")
	debian.Install(t, "systemd-nspawn", "systemd-container")
	dir := must.Get(os.MkdirTemp("", "dnsconfigurer-systemd"))(t)
	m := &machine{root: filepath.Join(dir, "root"), cgroup: "/" + filepath.Base(dir)}
	t.Cleanup(func() {
		if t.Failed() && m.cmd != nil {
			journal, err := m.command("journalctl", "--no-pager", "-n", "400").CombinedOutput()
			t.Logf("journal: %v\n%s", err, journal)
		}
		m.powerOff()
		if err := errors.Join(os.RemoveAll(dir), nodetools.RemoveCgroup(m.cgroup)); err != nil {
			t.Error(err)
		}
	})
	if err := nodetools.MakeCgroup(m.cgroup); err != nil {
		t.Fatalf("systemd-nspawn needs a writable /sys/fs/cgroup: %v", err)
	}
	run(t, "cp", "-a", "--reflink=auto", rootFS(t), m.root)
	// Reads block devices, and lasts minutes on a busy machine.
	must.Succeed(t, os.Symlink("/dev/null", filepath.Join(m.root, "etc/systemd/system/e2scrub_reap.service")))
	return m
}

// enterCgroup moves the shell to the cgroup $0 of systemd, version 2 or 1, and runs a command.
const enterCgroup = `for tree in "" /systemd /unified; do
	procs=/sys/fs/cgroup$tree$0/cgroup.procs
	[ ! -e $procs ] || echo $$ >$procs || exit
done
exec "$@"`

// boot starts the machine and returns when its units have started.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	m.log.Reset()
	m.cmd = exec.Command("sh", "-c", enterCgroup, m.cgroup, "systemd-nspawn", "-q", "-D", m.root,
		"--register=no", "--private-network", "--keep-unit", "--machine=m"+strconv.Itoa(os.Getpid()),
		"--tmpfs=/var/lib/containerd", "--bind=/dev/kmsg", "--capability=all", "--system-call-filter=@keyring bpf", "-b")
	m.cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes")
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	// If the test is killed, the machine shuts down. SIGKILL would end systemd-nspawn without it.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		t.Fatal(err)
	}
	m.ended = make(chan struct{})
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait()
	}()
	err := m.poll(func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.cmd.Process.Pid))
		if m.init = strings.TrimSpace(string(children)); err != nil || m.init == "" {
			return errors.Join(err, errors.New("systemd-nspawn starts no process"))
		}
		out, err := m.command("systemctl", "is-system-running").Output()
		if state := strings.TrimSpace(string(out)); state != "running" && state != "degraded" {
			return fmt.Errorf("systemd is %q: %w", state, err)
		}
		return nil
	})
	if err != nil {
		m.powerOff()
		t.Fatalf("the machine does not boot: %v; systemd-nspawn needs root with all capabilities, namespaces and cgroups:\n%s", err, &m.log)
	}
}

// poll calls try until it succeeds, and returns its last error after patience or when the machine
// has ended.
func (m *machine) poll(try func() error) error {
	for timeout := time.After(patience); ; {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-timeout:
			return fmt.Errorf("not within %v: %w", patience, err)
		case <-m.ended:
			return fmt.Errorf("systemd-nspawn has ended: %w", err)
		}
	}
}

// shutDown stops the units of the machine, and the machine.
func (m *machine) shutDown(t *testing.T) {
	t.Helper()
	m.run(t, "systemctl", "--no-block", "poweroff")
	select {
	case <-m.ended:
		m.cmd = nil
	case <-time.After(patience):
		m.powerOff()
		t.Fatalf("the machine does not shut down within %v:\n%s", patience, &m.log)
	}
}

// powerOff ends the machine at once.
func (m *machine) powerOff() {
	if m.cmd == nil {
		return
	}
	if pid, err := strconv.Atoi(m.init); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // systemd-nspawn ends, too
	} else {
		_ = m.cmd.Process.Signal(syscall.SIGTERM) // before the machine has a systemd
	}
	<-m.ended
	m.cmd = nil
}

// command returns a command that runs on the machine.
func (m *machine) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", m.init, "-a"}, args...)...)
}

// run runs a command on the machine.
func (m *machine) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// fails runs a command on the machine that must fail with a text in its output.
func (m *machine) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := m.command(args...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%q: %v, want an error with %q\n%s", args, err, want, out)
	}
}

// write writes a file of the machine.
func (m *machine) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(m.root, name)
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.RemoveAll(path), os.WriteFile(path, []byte(text), mode)))
}

// read returns a file of the machine.
func (m *machine) read(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(m.root, name)))(t))
}
