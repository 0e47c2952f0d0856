// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	socketFile  = "systemd/dnsconfigurer-shim.socket"
	serviceFile = "systemd/dnsconfigurer-shim.service"
	bypassFile  = "systemd/dnsconfigurer-bypass.service"
	kubeletFile = "systemd/kubelet.service.d/20-dnsconfigurer.conf"

	program    = "/usr/bin/dnsconfigurer"
	configFile = "/etc/dnsconfigurer/shim.yaml"

	bypassRecord = "/var/lib/dnsconfigurer/bypass.json"
)

// unit is a file of systemd.syntax(7): its values by "Section.Key".
type unit map[string]string

// readUnit reads a unit, in which each key has one value. TestUnits_Verify checks its syntax.
func readUnit(t *testing.T, path string) unit {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, found := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case found && !strings.HasPrefix(line, "#"):
			key = section + "." + key
			if _, twice := u[key]; twice {
				t.Errorf("%s: %s is set twice", path, key)
			}
			u[key] = value
		}
	}
	return u
}

// TestUnits_References compares the references between the three files with the defaults of
// the program.
func TestUnits_References(t *testing.T) {
	socket, service, kubelet := readUnit(t, socketFile), readUnit(t, serviceFile), readUnit(t, kubeletFile)
	path := strings.TrimPrefix(v1alpha1.DefaultShimListen, "unix://")
	socketName, serviceName := filepath.Base(socketFile), filepath.Base(serviceFile)
	for _, c := range []struct{ name, got, want string }{
		{"the socket's path", socket["Socket.ListenStream"], path},
		{"the directory of the last good settings", service["Service.StateDirectory"], "dnsconfigurer"},
		{"the service's writable path", service["Service.ReadWritePaths"], filepath.Dir(path)},
		{"the kubelet's endpoint", kubelet["Service.Environment"],
			"KUBELET_EXTRA_ARGS=--container-runtime-endpoint=" + v1alpha1.DefaultShimListen},
		{"the service's command", service["Service.ExecStart"], program + " shim --config " + configFile},
		{"the service's reload", service["Service.ExecReload"], `/bin/sh -c "kill -HUP $MAINPID"`},
		{"the unit that the service requires", service["Unit.Requires"], socketName},
		{"the units that are enabled with it", service["Install.Also"], socketName + " " + filepath.Base(bypassFile)},
		{"the unit that the kubelet wants", kubelet["Unit.Wants"], socketName},
		{"the units that the kubelet starts after", kubelet["Unit.After"], socketName + " " + serviceName},
		// cri.Inherit refuses anything wider.
		{"the socket's mode", socket["Socket.SocketMode"], "0600"},
		{"the directory's mode", socket["Socket.DirectoryMode"], "0700"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if got, want := strings.TrimSuffix(socketName, ".socket"), strings.TrimSuffix(serviceName, ".service"); got != want {
		t.Errorf("the socket %s does not start the service %s", got, want) // without Service=, by name
	}
	text := must.Get(os.ReadFile("../docs/nodes.md"))(t)
	for _, name := range []string{socketFile, serviceFile, bypassFile, kubeletFile, program, configFile, path} {
		if !strings.Contains(string(text), filepath.Base(name)) {
			t.Errorf("docs/nodes.md does not mention %s", name)
		}
	}
}

// TestUnits_Availability forbids settings that could stop the shim for good, or stop the kubelet
// with the shim.
func TestUnits_Availability(t *testing.T) {
	socket, service, kubelet := readUnit(t, socketFile), readUnit(t, serviceFile), readUnit(t, kubeletFile)
	if limit := socket["Socket.TriggerLimitIntervalSec"]; limit != "0" {
		t.Errorf("TriggerLimitIntervalSec=%s: after that many crashes the socket is closed, without the bypass", limit)
	}
	if bypass := service["Unit.OnFailure"]; bypass != filepath.Base(bypassFile) {
		t.Errorf("OnFailure=%s: at the start limit, the kubelet has no container runtime", bypass)
	}
	for file, u := range map[string]unit{socketFile: socket, serviceFile: service} {
		if condition := u["Unit.ConditionPathExists"]; condition != "!"+bypassRecord {
			t.Errorf("%s: ConditionPathExists=%s: a start ends the bypass", file, condition)
		}
	}
	if command := readUnit(t, bypassFile)["Service.ExecCondition"]; !strings.Contains(command, "test -e "+bypassRecord+" ") {
		t.Errorf("%s: %s: no bypass after a reboot", bypassFile, command)
	}
	if service["Service.Restart"] != "always" {
		t.Errorf("Restart=%s", service["Service.Restart"])
	}
	for _, key := range []string{
		"Service.MemoryMax", "Service.MemoryHigh", "Service.CPUQuota", "Service.RuntimeMaxSec",
		"Service.RuntimeDirectory", // is removed with the socket when the service stops
		"Unit.BindsTo", "Unit.PartOf", "Unit.Requisite", "Unit.Conflicts", "Socket.RemoveOnStop", "Socket.FlushPending",
	} {
		for file, u := range map[string]unit{socketFile: socket, serviceFile: service, kubeletFile: kubelet} {
			if u[key] != "" {
				t.Errorf("%s: %s=%s", file, key, u[key])
			}
		}
	}
	if kubelet["Unit.Requires"] != "" {
		t.Error("the kubelet stops with the shim")
	}
	stop, err := time.ParseDuration(service["Service.TimeoutStopSec"])
	if drain := 4 * time.Second; err != nil || stop < 2*drain { // of package cri
		t.Errorf("TimeoutStopSec=%v, %v: the drain takes up to %v", stop, err, drain)
	}
}

// systemdRoot returns a root directory for systemd-analyze: the units, kubeadm's kubelet, and
// empty versions of the files that they refer to.
func systemdRoot(t *testing.T) string {
	t.Helper()
	debian.Install(t, "systemd-analyze", "systemd") // it needs no running systemd
	root := t.TempDir()
	units := filepath.Join(root, "usr/lib/systemd/system")
	must.Succeed(t, os.CopyFS(units, os.DirFS("systemd")))
	files := map[string]string{
		program:            "",
		"/bin/sh":          "",
		"/usr/bin/kubelet": "",
		"/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
	}
	files["/bin/sh"] = ""
	for _, target := range []string{"basic", "multi-user", "shutdown", "sockets", "sysinit"} {
		files["/usr/lib/systemd/system/"+target+".target"] = "[Unit]\nDescription=test\n"
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		mode := os.FileMode(0o644)
		if text == "" {
			mode = 0o755
		}
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)))
	}
	return root
}

// TestUnits_Verify: systemd only warns of unknown keys and invalid values.
func TestUnits_Verify(t *testing.T) {
	root := systemdRoot(t)
	for _, name := range []string{filepath.Base(socketFile), filepath.Base(serviceFile), filepath.Base(bypassFile), "kubelet.service"} {
		out, err := exec.Command("systemd-analyze", "verify", "--root="+root, name).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestService_Exposure limits the exposure level, from 0 to 100 without a sandbox. The service
// has root, the network and read access to files; systemd 252 computes 21.
func TestService_Exposure(t *testing.T) {
	const limit = 25
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", fmt.Sprintf("--threshold=%d", limit), "--no-pager",
		"--root="+systemdRoot(t), filepath.Base(serviceFile)).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
