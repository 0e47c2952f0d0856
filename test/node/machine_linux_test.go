// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// nodeName is the hostname of the machine.
const nodeName = "node1"

// hostResolvConf is the machine's /etc/resolv.conf.
const hostResolvConf = "nameserver 192.0.2.53\nsearch node.example corp.example\noptions timeout:1 attempts:3\n"

// machine is a node with a container runtime, in its own namespaces. Its first process is
// a shell that runs commands of the test. When the test ends, the shell ends, and the
// kernel ends all other processes of the namespaces and removes their mounts and
// networks. Only cgroups remain.
type machine struct {
	dir        string // has the same path inside and outside; $DIR in commands
	cgroup     string // the parent of all pods
	programs   string // a directory, searched before those of $PATH; "": none
	init       *exec.Cmd
	shell      io.Writer
	answers    *bufio.Scanner
	containerd string // the process ID inside; "": not running
}

// setup prepares the namespaces. The files that a runtime writes outside its own
// directories go to /run and /var/lib.
const setup = `mount --make-rprivate / &&
mount -t proc proc /proc &&
mount -t tmpfs tmpfs /run &&
mount -t tmpfs tmpfs /var/lib &&
mount --bind "$DIR/etc" /etc &&
ip link set lo up &&
echo ` + nodeName + ` >/proc/sys/kernel/hostname &&
echo ready`

const containerdConfig = nodetools.ContainerdConfig + `  conf_dir = "DIR/cni"
[grpc]
  address = "DIR/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/opt"
`

// newMachine returns a machine with a running containerd that has the images. programs is
// the directory of containerd, "" for $PATH.
func newMachine(t testing.TB, programs string) *machine {
	t.Helper()
	m := newBareMachine(t, programs)
	m.startContainerd(t)
	m.importImages(t)
	return m
}

// newBareMachine returns a machine without containerd.
func newBareMachine(t testing.TB, programs string) *machine {
	t.Helper()
	nodetools.Install(t)
	// Paths of sockets are limited to 107 bytes, which t.TempDir exceeds (unix(7)).
	dir := must.Get(os.MkdirTemp("", "dnsconfigurer-node"))(t)
	m := &machine{dir: dir, cgroup: "/" + filepath.Base(dir), programs: programs}
	t.Cleanup(func() { m.close(t) })
	for name, text := range map[string]string{
		"etc/resolv.conf":   hostResolvConf,
		"etc/hosts":         "127.0.0.1 localhost\n",
		"cni/pods.conflist": nodetools.BridgeNetwork,
		"config.toml":       strings.ReplaceAll(containerdConfig, "DIR", dir),
	} {
		m.write(t, name, text)
	}
	m.boot(t)
	return m
}

// write writes a file in the machine's directory.
func (m *machine) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(m.dir, name)
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func (m *machine) boot(t testing.TB) {
	t.Helper()
	log := must.Get(os.Create(m.log()))(t)
	defer log.Close()
	m.init = exec.Command("sh")
	m.init.Env = append(os.Environ(), "DIR="+m.dir)
	if m.programs != "" {
		m.init.Env = append(m.init.Env, "PATH="+m.programs+":"+os.Getenv("PATH"))
	}
	m.init.Stderr = log
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	stdin, err1 := m.init.StdinPipe()
	stdout, err2 := m.init.StdoutPipe()
	must.Succeed(t, errors.Join(err1, err2, m.init.Start()))
	m.shell, m.answers = stdin, bufio.NewScanner(stdout)
	m.run(t, setup)
}

// run runs a command inside that writes one line, and returns the line.
func (m *machine) run(t testing.TB, command string) string {
	t.Helper()
	must.Get(fmt.Fprintf(m.shell, "%s || exit 1\n", command))(t)
	if !m.answers.Scan() {
		t.Fatalf("the command failed on the machine: %s", command) // close prints the log
	}
	return m.answers.Text()
}

// spawn starts a program inside and returns its process ID. The output goes to the file
// log in the machine's directory.
func (m *machine) spawn(t testing.TB, command, log string) string {
	t.Helper()
	return m.run(t, fmt.Sprintf(`{ %s >>"$DIR/%s" 2>&1 & } && echo $!`, command, log))
}

// end sends signal to a process that spawn started, waits for its end, and returns its
// exit code.
func (m *machine) end(t *testing.T, pid, signal string) string {
	t.Helper()
	return m.run(t, fmt.Sprintf("kill -%s %s && { wait %[2]s; echo $?; }", signal, pid))
}

// dial connects to an IP address and port of the machine's network.
func (m *machine) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = m.inside(ownNetwork, func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// ownNetwork is the machine's network, in the directory of proc_pid(5).
const ownNetwork = "ns/net"

// inside calls f in a network, whose file is below that of the machine's shell in /proc.
func (m *machine) inside(network string, f func() error) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/%s", m.init.Process.Pid, network))
	if err != nil {
		return err
	}
	defer namespace.Close()
	return netns.In(namespace, f)
}

func (m *machine) log() string { return filepath.Join(m.dir, "log") }

// close ends the processes of the machine and removes its files.
func (m *machine) close(t testing.TB) {
	if m.init != nil && m.init.Process != nil {
		_ = m.init.Process.Kill()
		_ = m.init.Wait() // returns when all processes of the namespace are gone
	}
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(m.dir, "*log"))
		for _, log := range logs {
			t.Logf("%s:\n%s", log, tail(log, 12<<10))
		}
	}
	if err := nodetools.RemoveCgroup(m.cgroup); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		t.Error(err)
	}
}

func tail(path string, size int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}

// patience limits each step, on a busy machine too.
const patience = 2 * time.Minute

// await calls try until it succeeds, for changes that another process makes without notice.
func await(t testing.TB, try func() error) {
	t.Helper()
	poll.UntilNil(t, "the machine", try)
}

func (m *machine) endpoint() string { return filepath.Join(m.dir, "containerd.sock") }

// startContainerd starts containerd and returns when it can run pods.
func (m *machine) startContainerd(t testing.TB) {
	t.Helper()
	m.containerd = m.spawn(t, `containerd --config "$DIR/config.toml"`, "log")
	r := runtimeapi.NewRuntimeServiceClient(connect(t, m.endpoint()))
	await(t, func() error {
		status, err := r.Status(t.Context(), &runtimeapi.StatusRequest{})
		for _, c := range status.GetStatus().GetConditions() {
			if (c.Type == "RuntimeReady" || c.Type == "NetworkReady") && !c.Status {
				err = errors.Join(err, fmt.Errorf("not %s: %s", c.Type, c.Message))
			}
		}
		return err
	})
}

// killContainerd ends containerd as a crash does. Its pods keep running.
func (m *machine) killContainerd(t *testing.T) {
	t.Helper()
	m.end(t, m.containerd, "KILL")
	m.containerd = ""
}

// importImages imports the images and returns when pods can use them: containerd
// processes the event of an import later.
func (m *machine) importImages(t testing.TB) {
	t.Helper()
	cmd := exec.Command("ctr", "--address", m.endpoint(), "--namespace", "k8s.io", "images", "import", nodetools.BuildImages(t, m.dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	images := runtimeapi.NewImageServiceClient(connect(t, m.endpoint()))
	for _, name := range []string{nodetools.PauseImage, nodetools.GlibcImage, nodetools.MuslImage} {
		await(t, func() error {
			s, err := images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			if err == nil && s.Image == nil {
				err = errors.New("is not known")
			}
			return err
		})
	}
}

// connect returns a connection to the socket at path. A call fails while there is no
// listener, and the next call connects again.
func connect(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: 10 * time.Second, // with 0, a connection attempt ends with the backoff
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within limits the time from the start to the end of a pod.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience)
}
