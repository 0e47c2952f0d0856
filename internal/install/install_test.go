// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
)

const (
	listen  = "unix:///run/dnsconfigurer/shim.sock"
	runtime = "unix:///run/containerd/containerd.sock"
	flag    = "--container-runtime-endpoint=" + listen

	unitFile = "/usr/lib/systemd/system/kubelet.service"
	kubeadm  = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
	ownUnit  = "/etc/systemd/system/kubelet.service.d/20-dnsconfigurer.conf"
	config   = "/var/lib/kubelet/config.yaml"
	kind     = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

	// kubeadmText is the drop-in of kubeadm's package.
	kubeadmText = `[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
)

// node is a node's files by path.
type node map[string]string

// with returns n with more files.
func (n node) with(files node) node {
	all := maps.Clone(n)
	maps.Copy(all, files)
	return all
}

var kubeadmNode = node{
	unitFile: "[Service]\nExecStart=/usr/bin/kubelet\n", kubeadm: kubeadmText, config: kind,
	"/var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause " +
		"--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock\"\n",
}

// plainNode returns a node whose unit has this command.
func plainNode(command string) node { return node{unitFile: "[Service]\nExecStart=" + command + "\n"} }

// write writes the files below a new root. The value "-> X" is a link to X.
func (n node) write(t testing.TB) install.Root {
	t.Helper()
	root := t.TempDir()
	n.writeTo(t, root)
	return install.Root(root)
}

// writeTo writes the files below root.
func (n node) writeTo(t testing.TB, root string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range n.with(node{"/var/run": "-> /run"}) {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o640))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read returns all files below a root.
func read(t *testing.T, root install.Root) node {
	t.Helper()
	n := node{}
	err := filepath.WalkDir(string(root), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, string(root))
		if target, err := os.Readlink(path); err == nil {
			n[name] = "-> " + target
			return nil
		}
		text, err := os.ReadFile(path)
		n[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func installer(root install.Root) *install.Installer {
	return &install.Installer{Root: root, KubeletUnit: "kubelet.service", Listen: listen,
		Runtime: runtime, Systemctl: install.Systemctl{Program: "true"}}
}

// TestInstall_Uninstall: each kind of node is configured with the shim by the file and line that the
// kubelet uses, a second call changes nothing, and uninstall restores every file.
func TestInstall_Uninstall(t *testing.T) {
	json := `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"`
	for _, tt := range []struct {
		name       string
		node       node
		path, want string // a file after the installation, and a line of it
	}{
		{"kubeadm", kubeadmNode, ownUnit, "Environment=KUBELET_EXTRA_ARGS=" + flag},
		{"flags of the operator",
			kubeadmNode.with(node{"/etc/default/kubelet": "# mine\nKUBELET_EXTRA_ARGS=--node-ip=192.0.2.1 -v 2\nA=b"}),
			"/etc/default/kubelet", `KUBELET_EXTRA_ARGS="--node-ip=192.0.2.1 -v 2 ` + flag + `"`},
		{"empty flags of the operator", kubeadmNode.with(node{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n"}),
			"/etc/default/kubelet", `KUBELET_EXTRA_ARGS="` + flag + `"`},
		{"quoted flags",
			kubeadmNode.with(
				node{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS='--container-runtime-endpoint " +
					"unix:///run/containerd/containerd.sock --v=2'\n"}),
			"/etc/default/kubelet", `KUBELET_EXTRA_ARGS="--v=2 ` + flag + `"`},
		{"flags of a drop-in",
			kubeadmNode.with(node{"/etc/systemd/system/kubelet.service.d/30-ip.conf": "[Service]\n" +
				"Environment=A=b \"KUBELET_EXTRA_ARGS=--v=2 --x\" C=d\n"}),
			"/etc/systemd/system/kubelet.service.d/30-ip.conf", `Environment=A=b "KUBELET_EXTRA_ARGS=--v=2 --x ` + flag + `" C=d`},
		{"flags in the first of several lines",
			kubeadmNode.with(node{"/etc/systemd/system/kubelet.service.d/30-ip.conf": "[Service]\n" +
				"Environment=\"KUBELET_EXTRA_ARGS=--v=2 --x\" \\\n  A=b\n"}),
			"/etc/systemd/system/kubelet.service.d/30-ip.conf", `Environment="KUBELET_EXTRA_ARGS=--v=2 --x ` + flag + "\" \\\n  A=b\n"},
		{"a linked file",
			kubeadmNode.with(node{"/etc/default/kubelet": "-> /etc/kubelet.env", "/etc/kubelet.env": "KUBELET_EXTRA_ARGS=\n"}),
			"/etc/kubelet.env", flag},
		{"a configuration file",
			plainNode("/usr/bin/kubelet --config /var/lib/kubelet/config.yaml").with(node{config: "# mine\n" + kind + "# end"}),
			config, "containerRuntimeEndpoint: " + listen},
		{"a field in the file",
			plainNode("/usr/bin/kubelet \\\n  --config=/var/lib/kubelet/config.yaml").with(
				node{config: kind + "containerRuntimeEndpoint: \"" + runtime + "\" # default\nmaxPods: 5\n"}),
			config, "containerRuntimeEndpoint: " + listen},
		{"JSON", plainNode("/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml").with(node{config: json + "}\n"}),
			config, `"containerRuntimeEndpoint": "` + listen + `"`},
		{"a field in JSON",
			plainNode("/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml").with(
				node{config: json + `, "containerRuntimeEndpoint":"` + runtime + `"}`}),
			config, `"containerRuntimeEndpoint":"` + listen + `"`},
		{"drop-ins", plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").with(
			node{"/etc/kubelet.d/10.conf": kind + "containerruntimeendpoint: " + runtime + "\n", "/etc/kubelet.d/20.conf": kind}),
			"/etc/kubelet.d/90-dnsconfigurer.conf", "containerRuntimeEndpoint: " + listen},
		{"no directory of drop-ins", plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d"),
			"/etc/kubelet.d/90-dnsconfigurer.conf", "containerRuntimeEndpoint: " + listen},
		{"a drop-in of that name", kubeadmNode.with(node{ownUnit: "[Unit]\nWants=x.service\n"}), ownUnit, flag},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.node.write(t)
			before := read(t, root)
			i := installer(root)
			if err := i.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := read(t, root)
			if !strings.Contains(after[tt.path], tt.want) {
				t.Errorf("%s:\n%s\nwant a line with %s", tt.path, after[tt.path], tt.want)
			}
			s := i.Status(t.Context(), &bypass.Bypass{State: string(root)}, "")
			if !s.Kubelet.UsesShim {
				t.Errorf("%+v", s.Kubelet)
			}
			if err := i.Install(t.Context()); err != nil || !maps.Equal(read(t, root), after) {
				t.Errorf("a second installation: %v\n%v", err, read(t, root))
			}
			if stopped, err := i.Uninstall(t.Context()); err != nil || !stopped {
				t.Errorf("%v %v", stopped, err)
			}
			if got := read(t, root); !maps.Equal(got, before) {
				t.Errorf("after the removal:\n%v\nbefore the installation:\n%v", got, before)
			}
		})
	}
}

// TestInstall_Refused: the error names the place and what to do, and nothing is changed.
func TestInstall_Refused(t *testing.T) {
	long := "/etc/" + strings.Repeat("x", 250)
	for _, tt := range []struct {
		name string
		node node
		want string
	}{
		{"no unit", node{}, "unit kubelet.service not found in /etc/systemd/system"},
		{"masked unit", node{"/etc/systemd/system/kubelet.service": "-> /dev/null", "/dev/null": "-> /absent"}, "not found"},
		{"no command", node{unitFile: "[Service]\nType=simple\n"}, unitFile + ": has no ExecStart="},
		{"syntax of the unit", node{unitFile: "[Service]\nExecStart\n"}, unitFile + `:2: "ExecStart" is neither`},
		{"flag in ExecStart", plainNode("/usr/bin/kubelet --container-runtime-endpoint=" + runtime),
			unitFile + ":2: ExecStart sets --container-runtime-endpoint"},
		{"flag after the variable",
			plainNode("/usr/bin/kubelet $KUBELET_EXTRA_ARGS --container-runtime-endpoint " + runtime), unitFile + ":2: ExecStart sets"},
		{"a wrapper", plainNode("/bin/sh -c 'exec kubelet --v=2'"), "has neither $KUBELET_EXTRA_ARGS nor --config"},
		{"an empty command", plainNode("-$ABSENT"), unitFile + ":2: the kubelet's command has neither"},
		{"unbalanced quote", plainNode("/usr/bin/kubelet 'x"), unitFile + ":2: ExecStart: unbalanced quote"},
		{"another runtime", plainNode("/usr/bin/kubelet --container-runtime-endpoint=unix:///run/crio/crio.sock"),
			"the kubelet uses the container runtime unix:///run/crio/crio.sock (" + unitFile + ":2"},
		{"invalid YAML", kubeadmNode.with(node{config: kind + "a: [\n"}), config + ": line "},
		{"another kind", kubeadmNode.with(node{config: "kind: Pod\n"}), config + ": is "},
		{"no configuration file", plainNode("/usr/bin/kubelet --config=/absent"), "reading the kubelet's configuration"},
		{"a later drop-in",
			plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").with(
				node{"/etc/kubelet.d/99.conf": kind + "containerRuntimeEndpoint: " + runtime + "\n"}),
			"/etc/kubelet.d/99.conf: containerRuntimeEndpoint is read after /etc/kubelet.d/90-dnsconfigurer.conf"},
		{"anchors", plainNode("/usr/bin/kubelet --config=" + config).with(
			node{config: "{apiVersion: kubelet.config.k8s.io/v1beta1, kind: &k KubeletConfiguration, " +
				"x: \"{\", containerRuntimeEndpoint: " + runtime + "}\n"}),
			config + ": the file has a form that cannot be edited: set containerRuntimeEndpoint"},
		{"quotes in the variable", kubeadmNode.with(node{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--a='b c'\n"}),
			"/etc/default/kubelet:1: KUBELET_EXTRA_ARGS: the value has quotes"},
		{"flags in the second of several lines",
			kubeadmNode.with(node{"/etc/systemd/system/kubelet.service.d/30-ip.conf": "[Service]\n" +
				"Environment=A=b \\\n  KUBELET_EXTRA_ARGS=--v=2\n"}),
			"/etc/systemd/system/kubelet.service.d/30-ip.conf:2: KUBELET_EXTRA_ARGS: the value spans several lines"},
		{"variable of a package",
			kubeadmNode.with(node{"/usr/lib/systemd/system/kubelet.service.d/30.conf": "[Service]\n" +
				"Environment=KUBELET_EXTRA_ARGS=--v=2\n"}), "in a file that is not in /etc"},
		{"a loop of links",
			kubeadmNode.with(node{"/etc/default/kubelet": "-> kubelet2", "/etc/default/kubelet2": "-> kubelet"}),
			"too many levels of symbolic links"},
		{"a directory", kubeadmNode.with(node{"/etc/default/kubelet/x": ""}), "is not a regular file"},
		// The name of a temporary file beside it is too long, after the drop-in was written.
		{"a file that cannot be written", plainNode("/usr/bin/kubelet --config=" + long).with(node{long: kind}), "writing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.node.write(t)
			before := read(t, root)
			if err := installer(root).Install(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if got := read(t, root); !maps.Equal(got, before) {
				t.Errorf("after:\n%v\nbefore:\n%v", got, before)
			}
		})
	}
}

// TestInstall_Crash: a crash after the first edit is completed by install, or undone by uninstall. Both
// remove the temporary files of writes that were interrupted.
func TestInstall_Crash(t *testing.T) {
	n := kubeadmNode.with(node{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--v=2\n"})
	complete := n.write(t)
	if err := installer(complete).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := read(t, complete)
	crash := func() install.Root {
		root := n.write(t)
		state := filepath.Join(string(root), "var/lib/dnsconfigurer/install.json")
		dropIn := filepath.Join(string(root), ownUnit)
		err := errors.Join(os.MkdirAll(filepath.Dir(state), 0o700),
			os.WriteFile(state, []byte(want["/var/lib/dnsconfigurer/install.json"]), 0o600),
			os.MkdirAll(filepath.Dir(dropIn), 0o755), os.WriteFile(dropIn, []byte(want[ownUnit]), 0o644),
			os.WriteFile(filepath.Join(filepath.Dir(state), ".install.json.1237"), []byte("{"), 0o600),
			os.WriteFile(filepath.Join(filepath.Dir(dropIn), ".20-dnsconfigurer.conf.4111"), nil, 0o644))
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	root := crash()
	if err := installer(root).Install(t.Context()); err != nil || !maps.Equal(read(t, root), want) {
		t.Errorf("install: %v\n%v", err, read(t, root))
	}
	root = crash()
	if _, err := installer(root).Uninstall(t.Context()); err != nil || !maps.Equal(read(t, root), read(t, n.write(t))) {
		t.Errorf("uninstall: %v\n%v", err, read(t, root))
	}
}

// TestUninstall_Changed: what others changed after the installation stays.
func TestUninstall_Changed(t *testing.T) {
	const path = "/etc/default/kubelet"
	root := kubeadmNode.with(node{path: "KUBELET_EXTRA_ARGS=--v=2\n"}).write(t)
	i := installer(root)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	installed := read(t, root)[path]
	for _, tt := range []struct{ now, want, problem string }{
		{"# new\n" + installed, "# new\nKUBELET_EXTRA_ARGS=--v=2\n", ""},
		{"KUBELET_EXTRA_ARGS=--v=3\n", "KUBELET_EXTRA_ARGS=--v=3\n", ""},
		{"KUBELET_EXTRA_ARGS=--v=3 " + flag + "\n", "KUBELET_EXTRA_ARGS=--v=3 " + flag + "\n",
			path + ":1: KUBELET_EXTRA_ARGS configures the kubelet with the shim"},
	} {
		if err := i.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(string(root), path), []byte(tt.now), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := i.Uninstall(t.Context())
		if got := read(t, root)[path]; got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.now, got, tt.want)
		}
		if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%q: %v, want %q", tt.now, err, tt.problem)
		}
	}
	if _, ok := read(t, root)[ownUnit]; !ok {
		t.Error("the failed removal did not restore the drop-in")
	}
}

// TestInstall_Systemctl: nothing is changed if the units cannot be enabled.
func TestInstall_Systemctl(t *testing.T) {
	root := kubeadmNode.write(t)
	before := read(t, root)
	i := installer(root)
	i.Systemctl.Program = "false"
	if err := i.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "systemctl --root=") {
		t.Errorf("%v", err)
	}
	if !maps.Equal(read(t, root), before) {
		t.Errorf("%v", read(t, root))
	}
}

// TestInstall_Undone: if a step fails, the units that the installation has enabled are disabled again, and no
// others.
func TestInstall_Undone(t *testing.T) {
	for want, failed := range map[string]string{
		"is-enabled is-enabled is-enabled enable disable": "is-enabled", "is-enabled is-enabled is-enabled enable": "none",
	} {
		root := kubeadmNode.write(t)
		i, dir := installer(root), t.TempDir()
		i.Systemctl.Program = filepath.Join(dir, "systemctl")
		// The directory of the record cannot be created once the units are enabled.
		script := "#!/bin/sh\necho \"$2\" >>" + dir + "/calls\n[ \"$2\" = enable ] && : >" + string(root) +
			"/var/lib/dnsconfigurer\n[ \"$2\" != " + failed + " ]\n"
		if err := os.WriteFile(i.Systemctl.Program, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := i.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("got %v", err)
		}
		if calls, err := os.ReadFile(filepath.Join(dir, "calls")); strings.Join(strings.Fields(string(calls)), " ") != want {
			t.Errorf("systemctl was called: %q, %v, want %q", calls, err, want)
		}
	}
}

// TestUninstall_Directory: the directory of --config-dir stays if it existed, because the kubelet does
// not start without it, and is removed if install has created it.
func TestUninstall_Directory(t *testing.T) {
	for name, exists := range map[string]bool{"existed": true, "created": false} {
		t.Run(name, func(t *testing.T) {
			root := plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").write(t)
			dir := filepath.Join(string(root), "etc/kubelet.d")
			if exists {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			i := installer(root)
			if err := i.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "90-dnsconfigurer.conf")); err != nil {
				t.Error(err)
			}
			if _, err := i.Uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(dir); exists != (err == nil) {
				t.Errorf("the directory: %v", err)
			}
			if _, err := os.Stat(filepath.Join(string(root), "etc/systemd/system/kubelet.service.d")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory of the unit's drop-ins, which install has created: %v", err)
			}
		})
	}
}

// TestUninstall_Systemctl: if the units cannot be disabled, the kubelet stays configured without the
// shim, and another call completes the removal.
func TestUninstall_Systemctl(t *testing.T) {
	root := kubeadmNode.write(t)
	before := read(t, root)
	i := installer(root)
	if err := i.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Systemctl.Program = "false"
	const want = "configured without the shim, but the shim is not stopped: run dnsconfigurer uninstall again: systemctl --root="
	if _, err := i.Uninstall(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if text, ok := read(t, root)[ownUnit]; ok {
		t.Errorf("the kubelet is configured with a shim that may be stopped:\n%s", text)
	}
	i.Systemctl.Program = "true"
	if stopped, err := i.Uninstall(t.Context()); err != nil || !stopped {
		t.Errorf("second call: stopped %v, %v", stopped, err)
	}
	if got := read(t, root); !maps.Equal(got, before) {
		t.Errorf("after:\n%v\nbefore the installation:\n%v", got, before)
	}
}
