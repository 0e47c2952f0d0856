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

// kubeletUnit replaces the kubelet by a program that does nothing: the client makes its calls.
const kubeletUnit = `[Service]
EnvironmentFile=-/etc/default/kubelet
ExecStart=/usr/local/bin/kubelet $KUBELET_EXTRA_ARGS
[Install]
WantedBy=multi-user.target
`

const kubeletFlags = "KUBELET_EXTRA_ARGS=--v=2\n"

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
	m.write(t, "etc/systemd/system/kubelet.service", kubeletUnit, 0o644)
	m.write(t, "usr/local/bin/kubelet", "#!/bin/sh\nexec sleep infinity\n", 0o755)
	m.write(t, "etc/default/kubelet", kubeletFlags, 0o644)
	m.boot(t)
	m.run(t, "systemctl", "enable", "--now", "kubelet")

	m.run(t, "dpkg", "-i", "/root/shim.deb")
	m.write(t, "etc/dnsconfigurer/shim.yaml", shimConfig, 0o644)
	m.fails(t, "without the shim", "dnsconfigurer", "status")
	m.run(t, "dnsconfigurer", "install", "--restart-kubelet")
	m.run(t, "dnsconfigurer", "install")
	m.run(t, "dnsconfigurer", "status")
	if command := m.run(t, "systemctl", "show", "-p", "ExecStart", "kubelet") +
		m.read(t, "etc/default/kubelet"); !strings.Contains(command, "unix://"+socket) {
		t.Errorf("the kubelet: %s", command)
	}
	m.fails(t, "run 'dnsconfigurer uninstall' first", "dpkg", "-r", "dnsconfigurer")

	c := m.startClient(t)
	testReplacements(t, m, c)
	testCrashLoop(t, m, c)
	c.stop()
	m.powerOff() // a bypass outlasts the loss of power
	m.boot(t)
	c = m.startClient(t)
	testReturn(t, m, c)
	c.stop()
	m.shutDown(t)
	m.boot(t)
	m.startClient(t).stop()
	m.run(t, "dnsconfigurer", "status")
	testRemoval(t, m)
}

// testReplacements: no call fails while a new process replaces the shim. A kill may fail the call
// in progress. A process that a handover started is restarted, killed and replaced as the first one.
func testReplacements(t *testing.T, m *machine, c *client) {
	for _, step := range []struct {
		command  string
		handover bool // the service keeps running
		fail     int  // at most so many calls
	}{
		{command: "systemctl restart " + shimUnit},
		{command: "systemctl kill --kill-who=main --signal=KILL " + shimUnit, fail: 1},
		{command: "systemctl reload " + shimUnit, handover: true},
		{command: "systemctl restart " + shimUnit},
		{command: "systemctl reload " + shimUnit, handover: true},
		{command: "systemctl kill --kill-who=main --signal=KILL " + shimUnit, fail: 1},
		{command: "systemctl reload " + shimUnit, handover: true},
		{command: "dpkg --force-confold -i /root/shim.deb", handover: true},
	} {
		m.run(t, "systemctl", "reset-failed", shimUnit) // the starts so far
		before := m.shim(t)
		m.run(t, strings.Fields(step.command)...)
		var after shim
		if err := m.poll(func() error {
			if after = m.shim(t); after.process == before.process || after.state != "active" {
				return fmt.Errorf("%+v", after)
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: no new process: %v", step.command, err)
		}
		if failed := c.await(t); failed.n > step.fail {
			t.Errorf("%s: %v", step.command, failed)
		}
		if handover := after.invocation == before.invocation; handover != step.handover {
			t.Errorf("%s: handover: %v, want %v", step.command, handover, step.handover)
		}
		if got := m.run(t, "readlink", "/proc/"+after.process+"/exe"); got != "/"+program+"\n" {
			t.Errorf("%s: the process runs %s", step.command, got)
		}
		m.run(t, "dnsconfigurer", "status")
	}
}

// A shim is what systemd knows about the shim.
type shim struct{ state, process, invocation string }

func (m *machine) shim(t *testing.T) shim {
	t.Helper()
	show := func(property string) string {
		return strings.TrimSpace(m.run(t, "systemctl", "show", "--value", "-p", property, shimUnit))
	}
	return shim{show("ActiveState"), show("MainPID"), show("InvocationID")}
}

// testCrashLoop: a program whose shim ends cannot replace the running one. After a kill, the
// client's calls reach the container runtime again, although no program runs. A start of the
// kubelet does not end the bypass.
func testCrashLoop(t *testing.T, m *machine, c *client) {
	m.run(t, "mv", "/"+program, "/"+goodProgram)
	m.write(t, program, crashingProgram, 0o755)
	before := m.shim(t)
	m.fails(t, "", "systemctl", "reload", shimUnit)
	if failed := c.await(t); failed.n > 0 {
		t.Errorf("reload with a crashing program: %v", failed)
	}
	if after := m.shim(t); after != before {
		t.Errorf("reload with a crashing program: %+v, want %+v", after, before)
	}

	m.write(t, program, damagedProgram, 0o755)
	start := time.Now()
	m.run(t, "systemctl", "kill", "--kill-who=main", "--signal=KILL", shimUnit)
	if err := m.poll(m.bypassed); err != nil {
		t.Fatalf("no bypass: %v", err)
	}
	failed := c.await(t)
	t.Logf("crash loop: calls succeed after %v: %v", time.Since(start).Round(time.Millisecond), failed)
	m.run(t, "systemctl", "restart", "kubelet")
	if err := m.bypassed(); err != nil {
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
func testReturn(t *testing.T, m *machine, c *client) {
	stays := func(when string) {
		t.Helper()
		if err := m.bypassed(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		c.await(t)
	}
	stays("after a boot")
	m.write(t, program, crashingProgram, 0o755)
	m.fails(t, "the shim does not serve, the bypass stays", "dnsconfigurer", "bypass", "off")
	stays("bypass off with a crashing program")
	m.run(t, "dpkg", "--force-confold", "-i", "/root/shim.deb")
	stays("after an upgrade")
	m.fails(t, "bypass:   on since ", "dnsconfigurer", "status")
	m.run(t, "dnsconfigurer", "bypass", "off", "--restart-kubelet")
	m.run(t, "dnsconfigurer", "status")
	m.run(t, "dnsconfigurer", "bypass", "on", "--reason", "test")
	stays("bypass on")
	m.run(t, "dnsconfigurer", "bypass", "off", "--restart-kubelet")
	c.await(t)
	m.run(t, "dnsconfigurer", "status")
}

// testRemoval: the node is as it was before the installation. A bypass ends with the shim, and
// does not keep the next one from starting.
func testRemoval(t *testing.T, m *machine) {
	m.run(t, "dnsconfigurer", "bypass", "on")
	m.run(t, "dnsconfigurer", "uninstall", "--restart-kubelet")
	m.run(t, "dnsconfigurer", "install", "--restart-kubelet")
	m.run(t, "dnsconfigurer", "status")
	m.run(t, "dnsconfigurer", "uninstall", "--restart-kubelet")
	if got := m.read(t, "etc/default/kubelet"); got != kubeletFlags {
		t.Errorf("after uninstall: %q", got)
	}
	m.run(t, "dpkg", "-r", "dnsconfigurer")
	m.run(t, "systemctl", "is-active", "kubelet", "containerd")
	m.run(t, "dpkg", "--purge", "dnsconfigurer")
	for _, path := range []string{"/" + program, "/etc/dnsconfigurer", "/run/dnsconfigurer", "/var/lib/dnsconfigurer"} {
		m.fails(t, "No such file", "ls", path)
	}
	if units := m.run(t, "systemctl", "list-units", "--all", "--state=loaded", "--no-legend", "--plain", "dnsconfigurer-*"); units != "" {
		t.Errorf("after dpkg --purge: units:\n%s", units)
	}
}
