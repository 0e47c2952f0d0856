// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const shimConfig = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: ShimConfiguration
mode: Observe
node:
  nodeName: node1
  clusterDNS: [10.96.0.10]
  clusterDomain: cluster.local
  resolvConf: ""
`

const (
	shimUnit = "dnsconfigurer-shim.service"

	program     = "usr/bin/dnsconfigurer"
	goodProgram = program + ".good"

	// A damaged program runs no command.
	damagedProgram = "#!/bin/sh\nexit 3\n"

	// A crashing program runs all commands, but its shim ends at once.
	crashingProgram = "#!/bin/sh\n[ \"$1\" != shim ] || exit 3\nexec /" + goodProgram + " \"$@\"\n"
)

// buildPackage builds the deb and returns its path.
func buildPackage(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("go", "run", ".", "-out", out, "-platforms", "linux/"+runtime.GOARCH, "packages")
	cmd.Dir = "../../release"
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	found, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	return found[0]
}

// TestSystemd goes through the life of a shim on one machine.
func TestSystemd(t *testing.T) {
	m := newMachine(t)
	run(t, "cp", buildPackage(t), filepath.Join(m.root, "root/shim.deb"))
	k := newKubelet(t, m)
	m.boot(t)
	m.run(t, "systemctl", "enable", "--now", "kubelet")
	t.Cleanup(func() { k.report(t) })
	k.check(t, "without the shim")

	m.run(t, "dpkg", "-i", "/root/shim.deb")
	m.write(t, "etc/dnsconfigurer/shim.yaml", shimConfig, 0o644)
	m.fails(t, "without the shim", "dnsconfigurer", "status")
	m.run(t, "dnsconfigurer", "install", "--restart-kubelet")
	m.run(t, "dnsconfigurer", "install")
	m.run(t, "dnsconfigurer", "status")
	if text := m.read(t, dropIn); !strings.Contains(text, "unix://"+socket) {
		t.Errorf("%s: %s", dropIn, text)
	}
	m.fails(t, "run 'dnsconfigurer uninstall' first", "dpkg", "-r", "dnsconfigurer")

	k.expectRestart()
	k.check(t, "install --restart-kubelet")

	c := m.startClient(t)
	testReplacements(t, k, c)
	testCrashLoop(t, k, c)
	c.stop()
	m.powerOff() // a bypass outlasts the loss of power
	m.boot(t)
	k.reboot()
	k.check(t, "boot with the bypass")
	c = m.startClient(t)
	testReturn(t, k, c)
	c.stop()
	m.shutDown(t)
	m.boot(t)
	k.reboot()
	k.check(t, "boot with the shim")
	m.startClient(t).stop()
	m.run(t, "dnsconfigurer", "status")
	testRemoval(t, k)
}

// testReplacements: no call fails while a new process replaces the shim. A kill may fail the calls
// in progress. A reload keeps the process.
func testReplacements(t *testing.T, k *kubelet, c *client) {
	for _, step := range []struct {
		command string
		stays   bool // the process
		fail    int  // at most so many calls
	}{
		{command: "systemctl restart " + shimUnit},
		{command: "systemctl kill --kill-who=main --signal=KILL " + shimUnit, fail: 1},
		{command: "systemctl reload " + shimUnit, stays: true},
		{command: "systemctl restart " + shimUnit},
		{command: "dpkg --force-confold -i /root/shim.deb"},
	} {
		k.run(t, "systemctl", "reset-failed", shimUnit) // the starts so far
		before := k.shim(t)
		k.run(t, strings.Fields(step.command)...)
		var after shim
		if err := k.poll(func() error {
			if after = k.shim(t); (after.process == before.process) != step.stays || after.state != "active" || after.process == "0" {
				return fmt.Errorf("%+v", after)
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", step.command, err)
		}
		if failed := c.await(t); failed.n > step.fail {
			t.Errorf("%s: %v", step.command, failed)
		}
		if failed := k.check(t, step.command); step.fail == 0 && failed > 0 {
			t.Errorf("%s: %d CRI calls of the kubelet failed: %v", step.command, failed, k.calls.errors)
		}
		if got := k.run(t, "readlink", "/proc/"+after.process+"/exe"); got != "/"+program+"\n" {
			t.Errorf("%s: the process runs %s", step.command, got)
		}
		k.run(t, "dnsconfigurer", "status")
	}
}

// dropIn is the file that configures the kubelet with the shim.
const dropIn = "etc/systemd/system/kubelet.service.d/20-dnsconfigurer.conf"

// A shim is what systemd knows about the shim.
type shim struct{ state, process string }

func (m *machine) shim(t *testing.T) shim {
	t.Helper()
	show := func(property string) string {
		return strings.TrimSpace(m.run(t, "systemctl", "show", "--value", "-p", property, shimUnit))
	}
	return shim{show("ActiveState"), show("MainPID")}
}

// testCrashLoop: after a kill of a shim whose program cannot start again, the calls of client and
// kubelet reach the container runtime, although no program runs. A start of the kubelet does not end
// the bypass.
func testCrashLoop(t *testing.T, k *kubelet, c *client) {
	k.run(t, "mv", "/"+program, "/"+goodProgram)
	k.write(t, program, damagedProgram, 0o755)
	start := time.Now()
	k.run(t, "systemctl", "kill", "--kill-who=main", "--signal=KILL", shimUnit)
	if err := k.poll(k.bypassed); err != nil {
		t.Fatalf("no bypass: %v", err)
	}
	failed := c.await(t)
	t.Logf("crash loop: calls succeed after %v: %v", time.Since(start).Round(time.Millisecond), failed)
	k.check(t, "five failures in a minute: bypass")
	k.run(t, "systemctl", "restart", "kubelet")
	k.expectRestart()
	k.check(t, "restart of the kubelet with the bypass")
	if err := k.bypassed(); err != nil {
		t.Errorf("after a restart of the kubelet: %v", err)
	}
	c.await(t)
}

// bypassed returns an error unless the shim's socket is a link to that of the container runtime.
func (m *machine) bypassed() error {
	out, err := m.command("readlink", socket).Output()
	if err != nil {
		return fmt.Errorf("%s is not a link: %w", socket, err)
	}
	if got := strings.TrimSpace(string(out)); got != "/run/containerd/containerd.sock" {
		return errors.New(socket + " is a link to " + got)
	}
	return nil
}

// testReturn: the bypass ends when the shim serves again, and not before.
func testReturn(t *testing.T, k *kubelet, c *client) {
	stays := func(when string) {
		t.Helper()
		if err := k.bypassed(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		c.await(t)
	}
	stays("after a boot")
	k.write(t, program, crashingProgram, 0o755)
	k.fails(t, "the shim does not serve, the bypass stays", "dnsconfigurer", "bypass", "off")
	stays("bypass off with a crashing program")
	k.run(t, "dpkg", "--force-confold", "-i", "/root/shim.deb")
	stays("after an upgrade")
	k.check(t, "upgrade with the bypass")
	k.fails(t, "bypass:   on since ", "dnsconfigurer", "status")
	k.run(t, "dnsconfigurer", "bypass", "off")
	k.run(t, "systemctl", "restart", "kubelet")
	k.expectRestart()
	k.check(t, "bypass off, and a restart of the kubelet")
	k.run(t, "dnsconfigurer", "status")
	k.run(t, "dnsconfigurer", "bypass", "on", "--reason", "test")
	stays("bypass on")
	k.check(t, "bypass on")
	k.run(t, "dnsconfigurer", "bypass", "off")
	c.await(t)
	k.check(t, "bypass off") // the kubelet keeps its connection
	if out := k.run(t, "dnsconfigurer", "bypass", "off"); out != "the bypass is off already\n" {
		t.Errorf("the second bypass off: %s", out)
	}
	k.run(t, "systemctl", "restart", "kubelet")
	c.await(t)
	k.expectRestart()
	k.check(t, "the second bypass off, and a restart of the kubelet")
	k.run(t, "dnsconfigurer", "status")
}

// testRemoval: the node is as it was before the installation. A bypass ends with the shim, and
// does not keep the next one from starting.
func testRemoval(t *testing.T, k *kubelet) {
	k.run(t, "dnsconfigurer", "bypass", "on")
	k.run(t, "dnsconfigurer", "uninstall", "--restart-kubelet")
	k.run(t, "dnsconfigurer", "install", "--restart-kubelet")
	k.run(t, "dnsconfigurer", "status")
	k.run(t, "dnsconfigurer", "uninstall", "--restart-kubelet")
	k.fails(t, "No such file", "ls", "/"+dropIn)
	k.run(t, "dpkg", "-r", "dnsconfigurer")
	k.run(t, "systemctl", "is-active", "kubelet", "containerd")
	k.expectRestart()
	k.check(t, "uninstall --restart-kubelet")
	k.run(t, "dpkg", "--purge", "dnsconfigurer")
	for _, path := range []string{"/" + program, "/etc/dnsconfigurer", "/run/dnsconfigurer", "/var/lib/dnsconfigurer"} {
		k.fails(t, "No such file", "ls", path)
	}
	if units := k.run(t, "systemctl", "list-units", "--all", "--state=loaded", "--no-legend", "--plain", "dnsconfigurer-*"); units != "" {
		t.Errorf("after dpkg --purge: units:\n%s", units)
	}
}
