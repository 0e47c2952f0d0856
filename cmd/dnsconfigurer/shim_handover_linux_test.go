// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
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

	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
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
	awaitStatus(t, p, answers)

	if err := os.Remove(status); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), p.Program, "handover", "--config", configFile).CombinedOutput()
	if err != nil {
		t.Fatalf("the handover: %v\n%s\n%s", err, out, p.Log())
	}
	pid := regexp.MustCompile(`msg="handed over, completing calls" pid=(\d+)`).FindStringSubmatch(p.Log())
	if pid == nil {
		t.Fatalf("the log does not name the new process:\n%s", p.Log())
	}
	successor, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it is a child of the test
		_ = syscall.Kill(successor, syscall.SIGKILL)
		_, _ = syscall.Wait4(successor, nil, 0, nil)
	})
	if !strings.Contains(p.Log(), `msg="status socket not taken over, opening another one"`) {
		t.Errorf("not logged:\n%s", p.Log())
	}
	awaitStatus(t, p, answers)
}

// awaitStatus waits until the status socket answers.
func awaitStatus(t *testing.T, p *process.Process, answers func() error) {
	t.Helper()
	err := errors.New("not called")
	for deadline := time.Now().Add(3 * time.Minute); err != nil; time.Sleep(20 * time.Millisecond) {
		if err = answers(); err != nil && time.Now().After(deadline) {
			t.Fatalf("the status socket: %v\n%s", err, p.Log())
		}
	}
}
