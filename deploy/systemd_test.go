// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
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
type unit map[string][]string

// parseUnit is stricter than systemd, which only warns: it rejects empty keys, sections that
// the kind of unit does not have, and syntax that the units do not use.
func parseUnit(text, kind string) (unit, error) {
	u, section := unit{}, ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			if line != "["+section+"]" || !slices.Contains([]string{"Unit", kind, "Install"}, section) {
				return nil, fmt.Errorf("line %d: section %s of a %s", i+1, line, kind)
			}
		default:
			key, value, found := strings.Cut(line, "=")
			if !found || section == "" || key == "" || strings.TrimSpace(line) != line ||
				strings.HasSuffix(key, " ") || strings.HasSuffix(line, `\`) {
				return nil, fmt.Errorf("line %d: %q", i+1, line)
			}
			u[section+"."+key] = append(u[section+"."+key], value)
		}
	}
	return u, nil
}

func readUnit(t *testing.T, path, kind string) unit {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u, err := parseUnit(string(text), kind)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for key, values := range u {
		if len(values) > 1 {
			t.Errorf("%s: %s is set %d times", path, key, len(values))
		}
	}
	return u
}

// get returns the value of a key, or "" if it is not set.
func (u unit) get(key string) string { return strings.Join(u[key], "\n") }

func TestParseUnit(t *testing.T) {
	u, err := parseUnit("# why\n[Unit]\nAfter=a b\n\n[Service]\nEnvironment=A=B\n", "Service")
	if err != nil || u.get("Unit.After") != "a b" || u.get("Service.Environment") != "A=B" {
		t.Errorf("%v, %v", u, err)
	}
	for _, text := range []string{"After=a\n", "[Unit]\nAfter\n", "[Unit]\n=a\n", "[Unit]\nAfter =a\n",
		"[Socket]\n", "[Unit\n", "[Unit]\nAfter=a\\\nb\n"} {
		if u, err := parseUnit(text, "Service"); err == nil {
			t.Errorf("%q: parsed as %v", text, u)
		}
	}
}

// TestUnits_References compares the references between the three files with the defaults of
// the program.
func TestUnits_References(t *testing.T) {
	socket, service, kubelet := readUnit(t, socketFile, "Socket"), readUnit(t, serviceFile, "Service"), readUnit(t, kubeletFile, "Service")
	path := strings.TrimPrefix(v1alpha1.DefaultShimListen, "unix://")
	socketName, serviceName := filepath.Base(socketFile), filepath.Base(serviceFile)
	for _, c := range []struct{ name, got, want string }{
		{"the socket's path", socket.get("Socket.ListenStream"), path},
		{"the directory of the last good settings", service.get("Service.StateDirectory"), "dnsconfigurer"},
		{"the service's writable path", service.get("Service.ReadWritePaths"), filepath.Dir(path)},
		{"the kubelet's endpoint", kubelet.get("Service.Environment"),
			"KUBELET_EXTRA_ARGS=--container-runtime-endpoint=" + v1alpha1.DefaultShimListen},
		{"the service's command", service.get("Service.ExecStart"), program + " shim --config " + configFile},
		{"the unit that the service requires", service.get("Unit.Requires"), socketName},
		{"the units that are enabled with it", service.get("Install.Also"), socketName + " " + filepath.Base(bypassFile)},
		{"the unit that the kubelet wants", kubelet.get("Unit.Wants"), socketName},
		{"the units that the kubelet starts after", kubelet.get("Unit.After"), socketName + " " + serviceName},
		// cri.Inherit refuses anything wider.
		{"the socket's mode", socket.get("Socket.SocketMode"), "0600"},
		{"the directory's mode", socket.get("Socket.DirectoryMode"), "0700"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if got, want := strings.TrimSuffix(socketName, ".socket"), strings.TrimSuffix(serviceName, ".service"); got != want {
		t.Errorf("the socket %s does not start the service %s", got, want) // without Service=, by name
	}
	text, err := os.ReadFile("../docs/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{socketFile, serviceFile, bypassFile, kubeletFile, program, configFile, path} {
		if !strings.Contains(string(text), filepath.Base(name)) {
			t.Errorf("docs/nodes.md does not mention %s", name)
		}
	}
}

// TestUnits_Availability forbids settings that could stop the shim for good, or stop the kubelet
// with the shim.
func TestUnits_Availability(t *testing.T) {
	socket, service, kubelet := readUnit(t, socketFile, "Socket"), readUnit(t, serviceFile, "Service"), readUnit(t, kubeletFile, "Service")
	if limit := socket.get("Socket.TriggerLimitIntervalSec"); limit != "0" {
		t.Errorf("TriggerLimitIntervalSec=%s: after that many crashes the socket is closed, without the bypass", limit)
	}
	if bypass := service.get("Unit.OnFailure"); bypass != filepath.Base(bypassFile) {
		t.Errorf("OnFailure=%s: at the start limit, the kubelet has no container runtime", bypass)
	}
	for file, u := range map[string]unit{socketFile: socket, serviceFile: service} {
		if condition := u.get("Unit.ConditionPathExists"); condition != "!"+bypassRecord {
			t.Errorf("%s: ConditionPathExists=%s: a start ends the bypass", file, condition)
		}
	}
	if command := readUnit(t, bypassFile, "Service").get("Service.ExecCondition"); !strings.Contains(command, "test -e "+bypassRecord+" ") {
		t.Errorf("%s: %s: no bypass after a reboot", bypassFile, command)
	}
	if service.get("Service.Restart") != "always" {
		t.Errorf("Restart=%s", service.get("Service.Restart"))
	}
	for _, key := range []string{
		"Service.MemoryMax", "Service.MemoryHigh", "Service.CPUQuota", "Service.RuntimeMaxSec",
		"Service.RuntimeDirectory", // is removed with the socket when the service stops
		"Unit.BindsTo", "Unit.PartOf", "Unit.Requisite", "Unit.Conflicts", "Socket.RemoveOnStop", "Socket.FlushPending",
	} {
		for file, u := range map[string]unit{socketFile: socket, serviceFile: service, kubeletFile: kubelet} {
			if u.get(key) != "" {
				t.Errorf("%s: %s=%s", file, key, u.get(key))
			}
		}
	}
	if kubelet.get("Unit.Requires") != "" {
		t.Error("the kubelet stops with the shim")
	}
	stop, err := time.ParseDuration(service.get("Service.TimeoutStopSec"))
	if drain := 4 * time.Second; err != nil || stop < 2*drain { // the default of DrainTimeout
		t.Errorf("TimeoutStopSec=%v, %v: the drain takes up to %v", stop, err, drain)
	}
}

// TestService_Command runs the service's command with a file whose socket cannot be used, which
// is the only reason for it to end.
func TestService_Command(t *testing.T) {
	dir := t.TempDir()
	binary := build(t, dir)
	words := strings.Fields(readUnit(t, serviceFile, "Service").get("Service.ExecStart"))
	file := filepath.Join(dir, "shim.yaml")
	if err := os.WriteFile(file, []byte("listen: tcp://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, word := range words {
		if word == configFile {
			words[i] = file
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command(binary, words[1:]...)
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), file+": listen: ") {
		t.Errorf("%q: %v\n%s", words, err, &stderr)
	}
}

func build(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "dnsconfigurer")
	cmd := exec.Command("go", "build", "-o", path, "../cmd/dnsconfigurer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return path
}

// systemdRoot returns a root directory for systemd-analyze: the units, kubeadm's kubelet, and
// empty versions of the files that they refer to.
func systemdRoot(t *testing.T) string {
	t.Helper()
	debian.Install(t, "systemd-analyze", "systemd") // it needs no running systemd
	root := t.TempDir()
	units := filepath.Join(root, "usr/lib/systemd/system")
	if err := os.CopyFS(units, os.DirFS("systemd")); err != nil {
		t.Fatal(err)
	}
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
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
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

// TestService_Reload: a reload makes the shim read its files again.
func TestService_Reload(t *testing.T) {
	if command := readUnit(t, serviceFile, "Service").get("Service.ExecReload"); command != `/bin/sh -c "kill -HUP $MAINPID"` {
		t.Errorf("ExecReload=%s", command)
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
