// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/handover"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestShim_HandoverWithoutStatusSocket: a status socket that the new process cannot take over, here
// because it was removed, does not keep a node from an upgrade. The new process opens another one.
func TestShim_HandoverWithoutStatusSocket(t *testing.T) {
	dir := t.TempDir()
	status, configFile := filepath.Join(dir, "status.sock"), filepath.Join(dir, "shim.yaml")
	text := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\nlisten: %[1]s/shim.sock\n"+
		"runtimeEndpoint: %[1]s/runtime.sock\nhttp: \"\"\nstatusSocket: %[2]s\n"+
		"node: {nodeName: worker, clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: /dev/null}\n", dir, status)
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process.Process{Program: process.Build(t, dir), LogFile: filepath.Join(dir, "log"),
		Args: []string{"shim", "--config", configFile}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	answers := func() error {
		_, err := nodestatus.Client{Socket: status}.Status(t.Context())
		return err
	}
	poll.UntilNil(t, "a reply of the status socket", answers, logOf{p})

	if err := os.Remove(status); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), p.Program, "handover", "--config", configFile).CombinedOutput()
	if err != nil {
		t.Fatalf("the handover: %v\n%s\n%s", err, out, p.Log())
	}
	// Both processes write their logs in the background.
	var pid []string
	poll.Until(t, "the new process in the log", func() bool {
		pid = regexp.MustCompile(`msg="handed over, completing calls" pid=(\d+)`).FindStringSubmatch(p.Log())
		return pid != nil
	}, logOf{p})
	successor, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it is a child of the test
		_ = syscall.Kill(successor, syscall.SIGKILL)
		_, _ = syscall.Wait4(successor, nil, 0, nil)
	})
	poll.Until(t, "the reason in the log", func() bool {
		return strings.Contains(p.Log(), `msg="status socket not taken over, opening another one"`)
	}, logOf{p})
	poll.UntilNil(t, "a reply of the status socket", answers, logOf{p})
}

// TestShim_HandoverWithoutHTTPSocket: a socket of metrics and health that the new process cannot take
// over, here because it is a file, does not keep a node from an upgrade. The new process opens
// another one.
func TestShim_HandoverWithoutHTTPSocket(t *testing.T) {
	dir := t.TempDir()
	socket, addr, configFile := filepath.Join(dir, "shim.sock"), process.Loopback(t, 1)[0], filepath.Join(dir, "shim.yaml")
	text := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\nlisten: %s\n"+
		"runtimeEndpoint: %s/runtime.sock\nhttp: %q\nstatusSocket: \"\"\n"+
		"node: {nodeName: worker, clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: /dev/null}\n", socket, dir, addr)
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := cri.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	passed, err := l.Handoff()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Socket.Close()
	notSocket, err := os.Open(configFile)
	if err != nil {
		t.Fatal(err)
	}
	defer notSocket.Close()

	test := os.Args // the program and the arguments of a new process are those of the previous one
	defer func() { os.Args = test }()
	os.Args = []string{process.Build(t, dir), "shim", "--config", configFile}
	successor, err := handover.Start(t.Context(), handover.Program{
		Files:    map[string]*os.File{"socket": passed.Socket, "lock": passed.Lock, "http": notSocket},
		State:    map[string]any{"listen": socket, "removeSocket": true, "http": addr},
		Draining: new(handover.Draining), Timeout: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer successor.Abort()
	poll.UntilNil(t, "the page of another process", func() error {
		if page := process.Page(addr, "/livez"); page != "ok\n" {
			return fmt.Errorf("/livez: %s", page)
		}
		return nil
	})
}

// logOf is the log of a process, for the message of a test that fails.
type logOf struct{ *process.Process }

func (l logOf) String() string { return l.Log() }
