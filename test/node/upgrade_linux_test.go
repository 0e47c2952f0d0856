// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// upgraded is a shim in its own processes, each of which replaces the previous one. The test
// receives the notifications for systemd.
type upgraded struct {
	*machine
	dir     string // has the program, its configuration and its socket
	notify  *net.UnixConn
	kubelet kubelet
	images  runtimeapi.ImageServiceClient
	http    http.Client
}

const upgradedConfig = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: ShimConfiguration
listen: DIR/shim.sock
runtimeEndpoint: RUNTIME
http: 127.0.0.1:9299
drainTimeout: 2m
handoverTimeout: 1h
statusSocket: DIR/status.sock
node: {nodeName: node1, clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: DIR/../etc/resolv.conf}
`

func newUpgraded(t *testing.T, m *machine) *upgraded {
	t.Helper()
	u := &upgraded{machine: m, dir: filepath.Join(m.dir, "upgrade")}
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	process.Build(t, u.dir)
	u.configure(t, "")
	var err error
	if u.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(u.dir, "notify"), Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.notify.Close() })
	u.http = http.Client{Timeout: patience, Transport: &http.Transport{DialContext: m.dial, DisableKeepAlives: true}}
	m.spawn(t, `NOTIFY_SOCKET="$DIR/upgrade/notify" "$DIR/upgrade/dnsconfigurer" shim --config "$DIR/upgrade/shim.yaml"`, "upgrade.log")
	awaitNotification(t, u.notify, "READY=1")
	conn := connect(t, u.socket())
	u.kubelet = kubelet{runtimeapi.NewRuntimeServiceClient(conn), m.cgroup, &m.timings, "upgraded shim"}
	u.images = runtimeapi.NewImageServiceClient(conn)
	return u
}

func (u *upgraded) socket() string { return filepath.Join(u.dir, "shim.sock") }

// configure writes the configuration, with more lines.
func (u *upgraded) configure(t *testing.T, lines string) {
	t.Helper()
	u.write(t, "upgrade/shim.yaml", strings.NewReplacer("DIR", u.dir, "RUNTIME", u.endpoint()).Replace(upgradedConfig)+lines)
}

// install replaces the program as a package manager does.
func (u *upgraded) install(t *testing.T, text []byte) {
	t.Helper()
	path := filepath.Join(u.dir, "dnsconfigurer")
	if err := errors.Join(os.WriteFile(path+".new", text, 0o755), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// handOver runs the command of a reload, with a copy of the program that is never replaced.
func (u *upgraded) handOver(ctx context.Context, command string) (output string, err error) {
	out, err := exec.CommandContext(ctx, command, "handover", "--config", filepath.Join(u.dir, "shim.yaml")).CombinedOutput()
	return string(out), err
}

// awaitMetric waits until a metric of the main process has a value.
func (u *upgraded) awaitMetric(t *testing.T, line string) {
	t.Helper()
	var text []byte
	if err := poll(func() (err error) {
		if text, err = get(&u.http, "http://127.0.0.1:9299/metrics"); err == nil && !strings.Contains(string(text), "\n"+line+"\n") {
			err = errors.New("another value")
		}
		return err
	}); err != nil {
		t.Errorf("%s: %v\n%s", line, err, text)
	}
}

// testUpgrade hands over ten times while calls are in progress, all of which must succeed: a
// command in a container, the start of a sandbox and the pull of an image, which last from before
// the first handover until after the last one, and short calls.
func (m *machine) testUpgrade(t *testing.T) {
	u := newUpgraded(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	program, err := os.ReadFile(filepath.Join(u.dir, "dnsconfigurer"))
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(m.dir, "upgrade", "command")
	if err := os.WriteFile(command, program, 0o755); err != nil {
		t.Fatal(err)
	}
	sandbox, container := u.runHolder(ctx, t)
	calls := u.startLongCalls(ctx, t, container)
	short, status := u.startShortCalls(ctx, t), u.startStatusCalls(ctx, t)
	for n := range 10 {
		u.install(t, program)
		out, err := u.handOver(ctx, command)
		if err != nil {
			t.Fatalf("handover %d: %v\n%s", n, err, out)
		}
		awaitNotification(t, u.notify, "MAINPID=")
		awaitNotification(t, u.notify, "READY=1")
	}
	u.awaitMetric(t, `dnsconfigurer_handovers_total{result="completed"} 10`)
	u.awaitMetric(t, `dnsconfigurer_draining_calls 3`)
	short()
	status()
	calls()
	u.awaitMetric(t, `dnsconfigurer_draining_processes 0`)
	if s, err := u.status().Status(ctx); err != nil || s.Component != "shim" { // only the last process is left
		t.Errorf("the status socket after the handovers: %+v, %v", s, err)
	}
	u.testFailedHandovers(ctx, t, program, command)
	u.testStop(ctx, t, command, container)
	if err := m.directly(t).remove(ctx, sandbox); err != nil {
		t.Error(err)
	}
}

// runHolder starts a pod for commands.
func (u *upgraded) runHolder(ctx context.Context, t *testing.T) (sandbox, container string) {
	t.Helper()
	config := u.kubelet.sandboxOf(engine(t, facts()), u.host(), newPod("upgrade", corev1.PodSpec{}))
	sandbox, err := u.kubelet.start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if container, err = u.kubelet.startContainer(ctx, sandbox, config, nodetools.PauseImage); err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

// hold runs a command in the container that lasts until release is called.
func (u *upgraded) hold(ctx context.Context, t *testing.T, container, name string) (result <-chan error, release func()) {
	t.Helper()
	ended := make(chan error, 1)
	script := fmt.Sprintf("busybox touch /%s; until [ -e /%[1]s.end ]; do busybox sleep 0.1; done", name)
	go func() {
		_, err := u.kubelet.exec(ctx, container, "/bin/busybox", "sh", "-c", script)
		ended <- err
	}()
	direct := u.directly(t)
	if err := poll(func() error {
		_, err := direct.exec(ctx, container, "/bin/busybox", "ls", "/"+name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ended, func() {
		if _, err := direct.exec(ctx, container, "/bin/busybox", "touch", "/"+name+".end"); err != nil {
			t.Error(err)
		}
	}
}

// startLongCalls starts three calls. The returned function lets them end.
func (u *upgraded) startLongCalls(ctx context.Context, t *testing.T, container string) (end func()) {
	t.Helper()
	executed, release := u.hold(ctx, t, container, "hold")

	registry := newSlowRegistry(t, u.machine)
	pulled := make(chan error, 1)
	go func() {
		_, err := u.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: registry.image}})
		pulled <- err
	}()
	select {
	case <-registry.half:
	case err := <-pulled:
		t.Fatalf("the pull ends with %v", err)
	}

	// The plugin that assigns addresses waits for this lock.
	lock := u.spawn(t, "exec flock --no-fork /run/ipam/pods/lock sh -c 'touch $DIR/upgrade/locked; exec sleep 1000'", "log")
	if err := poll(func() error { _, err := os.Stat(filepath.Join(u.dir, "locked")); return err }); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() {
		config := u.kubelet.sandboxOf(engine(t, facts()), u.host(), newPod("upgrade-sandbox", corev1.PodSpec{}))
		id, err := u.kubelet.start(ctx, config)
		if err == nil {
			err = u.kubelet.remove(ctx, id)
		}
		started <- err
	}()
	u.awaitMetric(t, `dnsconfigurer_sandbox_decisions_total{outcome="unknown_pod"} 2`) // the request was forwarded
	return func() {
		release()
		close(registry.release)
		u.run(t, "kill "+lock+" && echo")
		for name, result := range map[string]<-chan error{"command": executed, "pull": pulled, "sandbox": started} {
			if err := <-result; err != nil {
				t.Errorf("%s during the handovers: %v", name, err)
			}
		}
	}
}

// startShortCalls calls the shim as a kubelet does, over an old connection and over new ones,
// until the returned function is called.
func (u *upgraded) startShortCalls(ctx context.Context, t *testing.T) (end func()) {
	short, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	call := func(k kubelet) {
		if _, err := k.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{}); err != nil && short.Err() == nil {
			t.Errorf("call during a handover: %v", err)
		}
	}
	clients.Go(func() {
		for short.Err() == nil {
			call(u.kubelet)
		}
	})
	clients.Go(func() {
		for short.Err() == nil {
			conn := connect(t, u.socket())
			call(kubelet{runtime: runtimeapi.NewRuntimeServiceClient(conn)})
			conn.Close()
		}
	})
	return func() {
		stop()
		clients.Wait()
	}
}

func (u *upgraded) status() nodestatus.Client {
	return nodestatus.Client{Socket: filepath.Join(u.dir, "status.sock")}
}

// startStatusCalls calls the status socket until the returned function is called.
func (u *upgraded) startStatusCalls(ctx context.Context, t *testing.T) (end func()) {
	t.Helper()
	if err := poll(func() error { _, err := u.status().Status(ctx); return err }); err != nil {
		t.Fatal(err)
	}
	calls, stop := context.WithCancel(ctx)
	var client sync.WaitGroup
	client.Go(func() {
		for calls.Err() == nil {
			if _, err := u.status().Status(ctx); err != nil {
				t.Errorf("the status socket during a handover: %v", err)
			}
		}
	})
	return func() {
		stop()
		client.Wait()
	}
}

// version calls the shim.
func (u *upgraded) version(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := u.kubelet.runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		t.Error(err)
	}
}

// testFailedHandovers installs programs and files with which no new process can serve.
func (u *upgraded) testFailedHandovers(ctx context.Context, t *testing.T, program []byte, command string) {
	fail := func(name, want string, err error, out string) {
		t.Helper()
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, want, out)
		}
		u.version(ctx, t)
	}
	u.install(t, []byte("#!/bin/sh\nexit 7\n"))
	out, err := u.handOver(ctx, command)
	fail("a program that ends", "ended before it was ready", err, out)

	u.install(t, []byte("#!/bin/sh\ntouch \"$DIR/upgrade/hangs\"\nexec sleep 1000\n"))
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err = u.handOver(limited, command)
	}()
	if err := poll(func() error { _, err := os.Stat(filepath.Join(u.dir, "hangs")); return err }); err != nil {
		t.Error(err)
	}
	cancel() // as systemd does after TimeoutStartSec=
	<-ended
	fail("a program that hangs", "", err, out)
	u.awaitMetric(t, `dnsconfigurer_handovers_total{result="failed"} 2`)

	u.install(t, program)
	u.configure(t, "mode: Guess\n")
	out, err = u.handOver(ctx, command)
	fail("an invalid file", `invalid configuration: `+filepath.Join(u.dir, "shim.yaml")+`: mode: "Guess"`, err, out)
	u.configure(t, "")
	if out, err := u.handOver(ctx, command); err != nil {
		t.Errorf("a handover after failures: %v\n%s", err, out)
	}
	awaitNotification(t, u.notify, "READY=1")
	u.awaitMetric(t, `dnsconfigurer_handovers_total{result="failed"} 3`)
}

// testStop stops the main process while a previous one has a call in progress: it completes, and
// no second shim starts before that.
func (u *upgraded) testStop(ctx context.Context, t *testing.T, command, container string) {
	result, release := u.hold(ctx, t, container, "last")
	if out, err := u.handOver(ctx, command); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pid := strings.TrimPrefix(awaitNotification(t, u.notify, "MAINPID="), "MAINPID=")
	awaitNotification(t, u.notify, "READY=1")
	u.run(t, "kill "+pid+" && echo")
	awaitNotification(t, u.notify, "STOPPING=1")
	if l, err := cri.Listen(u.socket()); err == nil || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("a second shim during the drain: %v, %v", l, err)
	}
	release()
	if err := <-result; err != nil {
		t.Errorf("call in a previous process during the stop: %v", err)
	}
	if err := poll(func() error {
		l, err := cri.Listen(u.socket())
		if err == nil {
			err = l.Close()
		}
		return err
	}); err != nil {
		t.Errorf("a second shim after the end: %v", err)
	}
}
