// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// unit replaces systemd: it holds the socket, starts the service in the sandbox of its
// unit, and receives its notifications.
type unit struct {
	*machine
	program, dir string   // dir: the socket's directory, the only writable one
	socket       *os.File // listens at dir/shim.sock
	notify       *net.UnixConn
	service      *exec.Cmd // nil: not running
	log          *os.File
}

// sandbox runs the service without write access to the machine and without capabilities.
const sandbox = `mount --make-rprivate / &&
mount --bind "$DIR" "$DIR" && mount -o remount,bind,ro "$DIR" &&
mount --bind "$RUN" "$RUN" && mount -o remount,bind,rw "$RUN" &&
LISTEN_PID=$$ LISTEN_FDS=1 exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`

func newUnit(t *testing.T, m *machine) *unit {
	t.Helper()
	u := &unit{machine: m, program: process.Build(t, m.dir), dir: filepath.Join(m.dir, "unit")}
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(t, "shim.yaml", shimHead+fmt.Sprintf("listen: %s\nruntimeEndpoint: unix://%s\n"+
		"node: {clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: etc/resolv.conf, nodeName: %s}\n",
		u.path(), u.endpoint(), nodeName))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: u.path(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	var err1, err2 error
	u.socket, err1 = l.File()
	u.notify, err2 = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(m.dir, "notify"), Net: "unixgram"})
	u.log, err = os.Create(filepath.Join(m.dir, "activated.log"))
	if err := errors.Join(err, err1, err2, os.Chmod(u.path(), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if u.service != nil {
			u.kill(t)
		}
		if t.Failed() {
			t.Logf("the log of the service:\n%s", tail(u.log.Name(), 12<<10))
		}
		u.log.Close()
		u.socket.Close()
		u.notify.Close()
	})
	return u
}

func (u *unit) path() string { return filepath.Join(u.dir, "shim.sock") }

func (u *unit) command() []string {
	return []string{u.program, "shim", "--config", filepath.Join(u.machine.dir, "shim.yaml")}
}

// start starts the service and returns when it is ready.
func (u *unit) start(t *testing.T) {
	t.Helper()
	u.service = exec.Command("sh", append([]string{"-c", sandbox, "sh"}, u.command()...)...)
	u.service.Env = append(os.Environ(), "DIR="+u.machine.dir, "RUN="+u.dir,
		"NOTIFY_SOCKET="+u.notify.LocalAddr().String(), "WATCHDOG_USEC=1000000")
	u.service.ExtraFiles = []*os.File{u.socket}
	u.service.Stdout, u.service.Stderr = u.log, u.log
	u.service.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := u.service.Start(); err != nil {
		t.Fatal(err)
	}
	u.await(t, "READY=1")
}

// await returns when the service has sent the notification want.
func (u *unit) await(t *testing.T, want string) {
	t.Helper()
	awaitNotification(t, u.notify, want)
}

// awaitNotification returns the next notification that begins with prefix.
func awaitNotification(t *testing.T, notify *net.UnixConn, prefix string) string {
	t.Helper()
	if err := notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 1000); ; {
		n, err := notify.Read(b)
		if err != nil {
			t.Fatalf("waiting for %s: %v", prefix, err)
		}
		if text := string(b[:n]); strings.HasPrefix(text, prefix) {
			return text
		}
	}
}

// kill ends the service as a crash does.
func (u *unit) kill(t *testing.T) {
	t.Helper()
	if err := u.service.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = u.service.Wait()
	u.service = nil
}

// dial returns a connection with the timeouts of a kubelet.
func (u *unit) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+u.path(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// kubelet returns a client of the shim.
func (u *unit) kubelet(c *grpc.ClientConn) kubelet {
	return kubelet{runtimeapi.NewRuntimeServiceClient(c), u.cgroup, &u.timings, "activated shim"}
}

// calls starts a call of each kubelet. The returned function waits for them; none may
// fail.
func calls(ctx context.Context, t *testing.T, kubelets ...kubelet) (wait func()) {
	results := make(chan error, len(kubelets))
	for _, k := range kubelets {
		go func() {
			_, err := k.runtime.Version(ctx, &runtimeapi.VersionRequest{})
			results <- err
		}()
	}
	return func() {
		t.Helper()
		for range kubelets {
			if err := <-results; err != nil {
				t.Errorf("call without a shim: %v", err)
			}
		}
	}
}

// testActivation runs the shim as a service of systemd. A call that arrives while the
// shim is stopped or killed waits for the next start.
func (m *machine) testActivation(t *testing.T) {
	u := newUnit(t, m)
	ctx, cancel := within(t.Context())
	defer cancel()
	conn := u.dial(t)
	old := u.kubelet(conn)

	wait := calls(ctx, t, old) // before the first start
	u.start(t)
	wait()
	u.await(t, "WATCHDOG=1")

	second := exec.Command(u.program, u.command()[1:]...)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), u.path()+".lock is locked by another process") {
		t.Errorf("a second shim: %v\n%s", err, out)
	}

	u.kill(t)
	// A call fails if the client has not noticed yet that its connection is closed.
	if !conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Fatal("the connection to the killed shim is still open")
	}
	wait = calls(ctx, t, old, u.kubelet(u.dial(t)))
	u.start(t)
	wait()

	// An unknown pod gets the kubelet's configuration, also in the sandbox.
	pod := newPod("activation", corev1.PodSpec{})
	config := old.sandboxOf(engine(t, facts()), m.host(), pod)
	id, err := old.start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	container, err := old.startContainer(ctx, id, config, nodetools.PauseImage)
	if err != nil {
		t.Fatal(err)
	}
	m.testDrain(ctx, t, u, old, container)
	if err := old.remove(ctx, id); err != nil {
		t.Error(err)
	}
}

// testDrain stops the service while a call is in progress, and starts it again.
func (m *machine) testDrain(ctx context.Context, t *testing.T, u *unit, old kubelet, container string) {
	inProgress := make(chan error, 1)
	go func() {
		_, err := old.exec(ctx, container, "/bin/busybox", "sh", "-c", "busybox touch /began && busybox sleep 2")
		inProgress <- err
	}()
	await(t, func() error {
		_, err := m.directly(t).exec(ctx, container, "/bin/busybox", "ls", "/began")
		return err
	})
	if err := u.service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	u.await(t, "STOPPING=1")
	wait := calls(ctx, t, old, u.kubelet(u.dial(t)))
	if err := u.service.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	u.service = nil
	if err := <-inProgress; err != nil {
		t.Errorf("call in progress during the stop: %v", err)
	}
	if info, err := os.Stat(u.path()); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket afterwards: %v, %v", info, err)
	}
	u.start(t)
	wait()
}
