// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	agent "github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	"/etc/systemd/system/other.service": "",
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
	must.Succeed(t, os.MkdirAll(filepath.Join(root, "run"), 0o755))
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
	must.Succeed(t, filepath.WalkDir(string(root), func(path string, e fs.DirEntry, err error) error {
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
	}))
	return n
}

func installer(root install.Root) *install.Installer {
	return &install.Installer{Node: install.Node{Root: root, KubeletUnit: "kubelet.service"},
		Endpoints: shim.Endpoints{Listen: listen, Runtime: runtime},
		Bypass:    &shim.Bypass{Socket: filepath.Join(string(root), "shim.sock"), State: string(root)},
		Systemctl: install.Systemctl{Program: "true"}}
}

// uninstall reports whether the shim was stopped.
func uninstall(t *testing.T, i *install.Installer) (stopped bool, err error) {
	t.Helper()
	var out strings.Builder
	err = i.Uninstall(t.Context(), &out)
	return strings.Contains(out.String(), "uninstalled: "), err
}

// TestInstall_Uninstall: each kind of node is configured with the shim by files of its own, a second call
// changes nothing, and uninstall restores every file.
func TestInstall_Uninstall(t *testing.T) {
	const own = "/etc/kubelet.d/90-dnsconfigurer.conf"
	for _, tt := range []struct {
		name       string
		node       node
		path, want string // a file after the installation, and a line of it
	}{
		{"kubeadm", kubeadmNode, ownUnit, "Environment=KUBELET_EXTRA_ARGS=" + flag},
		{"a linked directory", kubeadmNode.with(node{"/etc/systemd/system/kubelet.service.d": "-> /etc/x", "/etc/x/30.conf": "[Unit]\n"}),
			"/etc/x/20-dnsconfigurer.conf", "Environment=DNSCONFIGURER_SHIM=" + listen},
		{"drop-ins", plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").with(
			node{"/etc/kubelet.d/10.conf": kind + "containerruntimeendpoint: " + runtime + "\n", "/etc/kubelet.d/20.conf": kind}),
			own, "containerRuntimeEndpoint: " + listen},
		{"no drop-ins", plainNode("/usr/bin/kubelet \\\n --config=" + config + " --config-dir=/etc/kubelet.d").with(node{config: kind}),
			own, "containerRuntimeEndpoint: " + listen},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.node.write(t)
			before := read(t, root)
			i := installer(root)
			must.Succeed(t, i.Install(t.Context(), io.Discard))
			after := read(t, root)
			if !strings.Contains(after[tt.path], tt.want) {
				t.Errorf("%s:\n%s\nwant a line with %s", tt.path, after[tt.path], tt.want)
			}
			s := i.Status(t.Context(), agent.StatusClient{})
			if !s.Kubelet.UsesShim {
				t.Errorf("%+v", s.Kubelet)
			}
			if err := i.Install(t.Context(), io.Discard); err != nil || !maps.Equal(read(t, root), after) {
				t.Errorf("a second installation: %v\n%v", err, read(t, root))
			}
			if stopped, err := uninstall(t, i); err != nil || !stopped {
				t.Errorf("%v %v", stopped, err)
			}
			if got := read(t, root); !maps.Equal(got, before) {
				t.Errorf("after the removal:\n%v\nbefore the installation:\n%v", got, before)
			}
		})
	}
}

// TestInstall_Refused: the error names the place and what to write, and nothing is changed.
func TestInstall_Refused(t *testing.T) {
	const enable = "install changes no file of others: " +
		"run systemctl enable --now dnsconfigurer-shim.socket dnsconfigurer-shim.service, "
	for _, tt := range []struct {
		name string
		node node
		want string
	}{
		{"no unit", node{}, "unit kubelet.service not found in /etc/systemd/system"},
		{"masked unit", node{"/etc/systemd/system/kubelet.service": "-> /dev/null", "/dev/null": "-> /absent"}, "not found"},
		{"no command", node{unitFile: "[Service]\nType=simple\n"}, unitFile + ": has no ExecStart="},
		{"flag in ExecStart", plainNode("/usr/bin/kubelet --container-runtime-endpoint=" + runtime),
			enable + "set " + flag + " in " + unitFile + ":2, and restart the kubelet"},
		{"flag after the variable", plainNode("/usr/bin/kubelet $KUBELET_EXTRA_ARGS --container-runtime-endpoint " + runtime),
			enable + "set " + flag + " in " + unitFile + ":2"},
		{"a wrapper", plainNode("/bin/sh -c 'exec kubelet --v=2'"), enable + "add " + flag + " in " + unitFile + ":2"},
		{"an empty command", plainNode("-$ABSENT"), enable + "add " + flag + " in " + unitFile + ":2"},
		{"a configuration file alone", plainNode("/usr/bin/kubelet --config=" + config).with(node{config: kind}),
			enable + "set containerRuntimeEndpoint: " + listen + " in " + config},
		{"another runtime", plainNode("/usr/bin/kubelet --container-runtime-endpoint=unix:///run/crio/crio.sock"),
			"the kubelet uses the container runtime unix:///run/crio/crio.sock (" + unitFile + ":2"},
		{"invalid YAML", plainNode("/usr/bin/kubelet --config=" + config).with(node{config: kind + "a: [\n"}), config + ": line "},
		{"no configuration file", plainNode("/usr/bin/kubelet --config=/absent"), "/absent: "},
		{"a later drop-in",
			plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").with(
				node{"/etc/kubelet.d/99.conf": kind + "containerRuntimeEndpoint: " + runtime + "\n"}),
			enable + "set containerRuntimeEndpoint: " + listen + " in /etc/kubelet.d/99.conf"},
		{"flags of the operator", kubeadmNode.with(node{"/etc/default/kubelet": "# mine\nKUBELET_EXTRA_ARGS='--v=2'\n"}),
			enable + "append " + flag + " to KUBELET_EXTRA_ARGS in /etc/default/kubelet:2"},
		{"empty flags of a package", kubeadmNode.with(node{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n"}),
			"in /etc/default/kubelet:1"},
		{"flags of a drop-in", kubeadmNode.with(node{"/etc/systemd/system/kubelet.service.d/30-ip.conf": "[Service]\n" +
			"Environment=A=b \\\n \"KUBELET_EXTRA_ARGS=--v=2 --x\" C=d\n"}), "in /etc/systemd/system/kubelet.service.d/30-ip.conf:2"},
		{"a drop-in of that name", kubeadmNode.with(node{ownUnit: "[Unit]\nWants=x.service\n"}),
			ownUnit + " exists and was not written by dnsconfigurer install: remove it"},
		{"a loop of links",
			kubeadmNode.with(node{"/etc/default/kubelet": "-> kubelet2", "/etc/default/kubelet2": "-> kubelet"}),
			"too many levels of symbolic links"},
		{"a directory", kubeadmNode.with(node{"/etc/default/kubelet/x": ""}), "not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.node.write(t)
			before := read(t, root)
			if err := installer(root).Install(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if got := read(t, root); !maps.Equal(got, before) {
				t.Errorf("after:\n%v\nbefore:\n%v", got, before)
			}
		})
	}
}

// TestUninstall_ByHand: what others have written stays, and the shim keeps running.
func TestUninstall_ByHand(t *testing.T) {
	const path = "/etc/default/kubelet"
	root := kubeadmNode.with(node{path: "KUBELET_EXTRA_ARGS=--v=3 " + flag + "\n"}).write(t)
	before := read(t, root)
	i := installer(root)
	if err := i.Install(t.Context(), io.Discard); err != nil || !maps.Equal(read(t, root), before) {
		t.Errorf("install: %v\n%v", err, read(t, root))
	}
	want := path + ":1 configures the kubelet with the shim, and was written by hand: remove it there"
	if stopped, err := uninstall(t, i); stopped || err == nil || err.Error() != want {
		t.Errorf("%v, %v, want %s", stopped, err, want)
	}
	if got := read(t, root); !maps.Equal(got, before) {
		t.Errorf("after:\n%v\nbefore:\n%v", got, before)
	}
}

// TestInstall_Undone: if a step fails, the units that the installation has enabled are disabled again, and no
// others.
func TestInstall_Undone(t *testing.T) {
	for _, tt := range []struct{ failed, calls, want string }{
		{"is-enabled", "is-enabled enable disable", "not a directory"},
		{"none", "is-enabled enable", "not a directory"},
		{"enable", "is-enabled enable", "systemctl --root="},
	} {
		root := plainNode("/usr/bin/kubelet --config-dir=/etc/kubelet.d").with(node{"/etc/hosts": ""}).write(t)
		i, dir := installer(root), t.TempDir()
		i.Systemctl.Program = filepath.Join(dir, "systemctl")
		// The directory of the second file cannot be created once the units are enabled.
		script := "#!/bin/sh\necho \"$2\" >>" + dir + "/calls\n[ \"$2\" = enable ] && : >" + string(root) +
			"/etc/kubelet.d\n[ \"$2\" != " + tt.failed + " ]\n"
		must.Succeed(t, os.WriteFile(i.Systemctl.Program, []byte(script), 0o700))
		if err := i.Install(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if calls, err := os.ReadFile(filepath.Join(dir, "calls")); strings.Join(strings.Fields(string(calls)), " ") != tt.calls {
			t.Errorf("systemctl was called: %q, %v, want %q", calls, err, tt.calls)
		}
		if text, ok := read(t, root)[ownUnit]; ok {
			t.Errorf("the drop-in stays:\n%s", text)
		}
	}
}

// TestUninstall_Systemctl: if the units cannot be disabled, the kubelet stays configured without the
// shim, and another call completes the removal.
func TestUninstall_Systemctl(t *testing.T) {
	root := kubeadmNode.write(t)
	before := read(t, root)
	i := installer(root)
	must.Succeed(t, i.Install(t.Context(), io.Discard))
	i.Systemctl.Program = "false"
	const want = "configured without the shim, but the shim is not stopped: run dnsconfigurer uninstall again: systemctl --root="
	if _, err := uninstall(t, i); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if text, ok := read(t, root)[ownUnit]; ok {
		t.Errorf("the kubelet is configured with a shim that may be stopped:\n%s", text)
	}
	i.Systemctl.Program = "true"
	if stopped, err := uninstall(t, i); err != nil || !stopped {
		t.Errorf("second call: stopped %v, %v", stopped, err)
	}
	if got := read(t, root); !maps.Equal(got, before) {
		t.Errorf("after:\n%v\nbefore the installation:\n%v", got, before)
	}
}

// systemctlLog is a systemctl that appends its arguments to a file, and the file.
func systemctlLog(t *testing.T) (install.Systemctl, string) {
	t.Helper()
	dir := t.TempDir()
	program, calls := filepath.Join(dir, "systemctl"), filepath.Join(dir, "calls")
	must.Succeed(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$1\" >>"+calls+"\n"), 0o700))
	return install.Systemctl{Program: program}, calls
}

// TestBypass_End checks that the bypass ends only if the shim serves.
func TestBypass_End(t *testing.T) {
	for name, test := range map[string]struct {
		check error
		calls string
	}{
		"shim serves":  {nil, "stop\nreset-failed\nstart\n"},
		"shim crashes": {errors.New("connection refused"), "stop\nreset-failed\nstart\nstop\n"},
	} {
		t.Run(name, func(t *testing.T) {
			systemctl, calls := systemctlLog(t)
			dir := t.TempDir()
			s := install.Installer{
				Bypass: &shim.Bypass{
					Socket: filepath.Join(dir, "shim.sock"), Runtime: filepath.Join(dir, "runtime.sock"), State: dir,
				},
				Systemctl: systemctl, Running: true,
				Check: func(context.Context) error { return test.check },
			}
			began, err := s.StartBypass(t.Context(), "test")
			if err != nil || !began {
				t.Fatalf("began %v, %v", began, err)
			}
			ended, err := s.EndBypass(t.Context())
			if !errors.Is(err, test.check) || ended != (test.check == nil) {
				t.Errorf("ended %v, %v", ended, err)
			}
			record, err := s.Bypass.Active()
			if err != nil || (record != nil) != (test.check != nil) {
				t.Errorf("record %v, %v", record, err)
			}
			if record != nil && record.Reason != "test" {
				t.Errorf("reason %q", record.Reason)
			}
			text, err := os.ReadFile(calls)
			if err != nil || string(text) != test.calls {
				t.Errorf("%v, calls:\n%s", err, text)
			}
		})
	}
}

// TestBypass_StartFails: the bypass has begun if its link exists, also if the units cannot be stopped. The
// caller reports both, once.
func TestBypass_StartFails(t *testing.T) {
	dir := t.TempDir()
	s := install.Installer{
		Bypass:    &shim.Bypass{Socket: filepath.Join(dir, "shim.sock"), Runtime: "/runtime.sock", State: dir},
		Systemctl: install.Systemctl{Program: "false"}, Running: true,
	}
	for i := range 2 {
		if began, err := s.StartBypass(t.Context(), "test"); err == nil || began != (i == 0) {
			t.Errorf("began %v, %v", began, err)
		}
	}
}

// TestNode_Links: an absolute link on a mounted image leads to a directory of the image, as it does when
// the image runs, and not to that of this machine.
func TestNode_Links(t *testing.T) {
	outside := t.TempDir()
	root := node{
		"/etc/dnsconfigurer":     "-> " + outside,
		outside + "/shim.yaml":   "listen: unix:///socket/shim.sock\n",
		"/socket":                "-> " + outside,
		"/var/lib/dnsconfigurer": "-> " + outside,
	}.write(t)
	n := must.Get(install.Node{Root: root, Config: "/etc/dnsconfigurer/shim.yaml"}.Installer())(t)
	if began, err := n.StartBypass(t.Context(), "maintenance"); err != nil || !began {
		t.Fatalf("began %v, %v", began, err)
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Errorf("files of this machine were written: %v, %v", files, err)
	}
	for _, name := range []string{"shim.sock", "bypass.json"} {
		if _, ok := read(t, root)[filepath.Join(outside, name)]; !ok {
			t.Errorf("%s is not on the image: %v", name, read(t, root))
		}
	}
	if ended, err := n.EndBypass(t.Context()); err != nil || !ended {
		t.Fatalf("ended %v, %v", ended, err)
	}
	for _, name := range []string{"shim.sock", "bypass.json"} {
		if _, ok := read(t, root)[filepath.Join(outside, name)]; ok {
			t.Errorf("%s is left on the image", name)
		}
	}
}

// FuzzReadKubelet has other texts in the drop-in of kubeadm's package, in the file of the
// operator's flags and in the kubelet's configuration. The files are new, and their result can be read.
func FuzzReadKubelet(f *testing.F) {
	f.Add(kubeadmText, "KUBELET_EXTRA_ARGS=--v=2\n", kind)
	f.Add(strings.Replace(kubeadmText, "EnvironmentFile=-/etc/default/kubelet", `Environment="A=b" 'KUBELET_EXTRA_ARGS=-v 3'`, 1),
		"KUBELET_EXTRA_ARGS=\"--v=2 \\\n --container-runtime-endpoint=unix:///x\"", kind+"containerRuntimeEndpoint: unix:///y\n")
	f.Add("[Service]\nExecStart=-/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml \\\n --v=2 ${A}\n",
		"; comment\nA='", `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}`)
	root := kubeadmNode.write(f)
	write := func(t *testing.T, name, text string) {
		t.Helper()
		path := filepath.Join(string(root), name)
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
	f.Fuzz(func(t *testing.T, dropIn, environment, configuration string) {
		write(t, kubeadm, dropIn)
		write(t, "/etc/default/kubelet", environment)
		write(t, config, configuration)
		k, err := install.ReadKubelet(root, "kubelet.service")
		if err != nil {
			return
		}
		files, err := k.Files(listen)
		if err != nil {
			return
		}
		for _, f := range files {
			path := filepath.Join(string(root), f.Path)
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s exists", f.Path)
			}
			write(t, f.Path, f.Text)
			defer os.Remove(path)
		}
		after, err := install.ReadKubelet(root, "kubelet.service")
		if err != nil {
			t.Fatalf("after %v: %v", files, err)
		}
		if !after.Uses(strings.TrimPrefix(listen, "unix://")) {
			t.Errorf("after %v: the endpoint is %s of %s", files, after.Endpoint, after.Origin)
		}
	})
}
