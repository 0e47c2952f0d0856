// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

const (
	endpointFlag  = "container-runtime-endpoint"
	endpointField = "containerRuntimeEndpoint"
	extraArgs     = "KUBELET_EXTRA_ARGS" // kubeadm's unit has it last on the command line, for the operator

	// defaultEndpoint is the kubelet's default of containerRuntimeEndpoint.
	defaultEndpoint = "unix:///run/containerd/containerd.sock"
)

// A Kubelet is the configuration of a kubelet, as far as it decides the container runtime.
type Kubelet struct {
	Endpoint string // as it is configured
	Origin   string // the place that sets it; "": the default

	root      Root
	unitName  string
	command   command
	flagAt    int // index of the word with the endpoint's flag; -1: none
	config    string
	configDir string
	dropIn    string // the last file of configDir that sets the endpoint
}

// ReadKubelet reads the configuration of the kubelet that a unit runs.
func ReadKubelet(r Root, unitName string) (Kubelet, error) {
	u, err := readUnit(r, unitName)
	if err != nil {
		return Kubelet{}, err
	}
	k := Kubelet{Endpoint: defaultEndpoint, root: r, unitName: unitName}
	if k.command, err = readCommand(r, u); err != nil {
		return Kubelet{}, err
	}
	k.config, _ = k.command.flag("config")
	k.configDir, _ = k.command.flag("config-dir")
	if err := k.readConfig(); err != nil {
		return Kubelet{}, err
	}
	if err := k.readDropIns(); err != nil {
		return Kubelet{}, err
	}
	value, at := k.command.flag(endpointFlag)
	if k.flagAt = at; at >= 0 {
		w := k.command.words[at]
		k.Endpoint, k.Origin = value, fmt.Sprintf("%s: %s", w.at, cmp.Or(w.variable, "ExecStart"))
	}
	return k, nil
}

// readConfig reads the file of --config.
func (k *Kubelet) readConfig() error {
	if k.config == "" {
		return nil
	}
	text, err := k.root.read(k.config)
	if err != nil {
		return fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	fields, err := configFields(text)
	if err != nil {
		return excerpt.Prefix(k.config, err)
	}
	if value, _ := fields[endpointField].(string); value != "" {
		k.Endpoint, k.Origin = value, k.config+": "+endpointField
	}
	return nil
}

// configFields decodes a KubeletConfiguration.
func configFields(text string) (map[string]any, error) {
	js, err := document.LenientJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := document.Decode(js, &fields); err != nil {
		return nil, err
	}
	if version, kind := fields["apiVersion"], fields["kind"]; version != kube.KubeletAPIVersion || kind != kube.KubeletKind {
		return nil, fmt.Errorf("is \"%v %v\", must be \"%s %s\"", version, kind, kube.KubeletAPIVersion, kube.KubeletKind)
	}
	return fields, nil
}

// readDropIns reads the files of --config-dir. The kubelet ignores the case of names in them.
func (k *Kubelet) readDropIns() error {
	if k.configDir == "" {
		return nil
	}
	paths, err := k.root.list(k.configDir, kube.KubeletDropInExtension)
	if err != nil {
		return fmt.Errorf("reading the kubelet's drop-ins: %w", err)
	}
	for _, path := range paths {
		text, err := k.root.read(path)
		if errors.Is(err, fs.ErrNotExist) { // a dangling link
			continue
		} else if err != nil {
			return fmt.Errorf("reading the kubelet's drop-ins: %w", err)
		}
		fields, err := configFields(text)
		if err != nil {
			return excerpt.Prefix(path, err)
		}
		for name, value := range fields {
			if value, _ := value.(string); strings.EqualFold(name, endpointField) && value != "" {
				k.Endpoint, k.Origin, k.dropIn = value, path+": "+endpointField, path
			}
		}
	}
	return nil
}

// Uses reports whether the kubelet's endpoint is the socket at path.
func (k *Kubelet) Uses(path string) bool { return k.root.sameSocket(k.Endpoint, path) }

// sameSocket reports whether an endpoint is the socket at path on the node. Only directories are
// resolved: a bypass makes the shim's socket a link to that of the runtime.
func (r Root) sameSocket(endpoint, path string) bool {
	socket := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	a, err1 := r.Path(filepath.Dir(socket))
	b, err2 := r.Path(filepath.Dir(path))
	return err1 == nil && err2 == nil && a == b && filepath.Base(socket) == filepath.Base(path)
}

const (
	// dropInName is the name of the drop-in for the kubelet's unit. 10-kubeadm.conf comes before it.
	dropInName = "20-dnsconfigurer.conf"

	// configDropInName is the name of the file in the directory of --config-dir. It comes after those
	// of most others.
	configDropInName = "90-dnsconfigurer.conf"

	// header begins the files that install writes: uninstall removes no other one.
	header = "# Written by dnsconfigurer install; dnsconfigurer uninstall removes it.\n"

	// startedWith is the variable in the environment of a kubelet that was started with the drop-in.
	startedWith = "DNSCONFIGURER_SHIM"

	// unitText orders the kubelet after the shim. The kubelet does not require the shim: stopping
	// the shim must not stop it.
	unitText = header + `[Unit]
Wants=dnsconfigurer-shim.socket
After=dnsconfigurer-shim.socket dnsconfigurer-shim.service

[Service]
Environment=` + startedWith + "="

	byHand = "run systemctl enable --now dnsconfigurer-shim.socket dnsconfigurer-shim.service, %s, and restart the kubelet"
)

// A File is a file of the kubelet's configuration that Install writes and Uninstall removes.
type File struct {
	Path string // on the node
	Text string // "": it does not exist
}

// String returns the creation of f as a unified diff.
func (f File) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "--- /dev/null\n+++ %s\n@@ -0,0 +1,%d @@\n", f.Path, strings.Count(f.Text, "\n"))
	for line := range strings.Lines(f.Text) {
		out.WriteString("+" + line)
	}
	return out.String()
}

// dropInPath returns the path of the drop-in of the kubelet's unit.
func dropInPath(unit string) string {
	return filepath.Join("/etc/systemd/system", unit+".d", dropInName)
}

// ownPaths returns the paths of all files that Install may have written.
func (k *Kubelet) ownPaths() []string {
	paths := []string{dropInPath(k.unitName)}
	if k.configDir != "" {
		paths = append(paths, filepath.Join(k.configDir, configDropInName))
	}
	return paths
}

// Files returns the files that make the kubelet use the endpoint: none if it does so already. Files of
// others are not changed: if one of them decides the endpoint, the error says what to write there.
func (k *Kubelet) Files(endpoint string) ([]File, error) {
	if k.Uses(strings.TrimPrefix(endpoint, "unix://")) {
		return nil, nil
	}
	flag := "--" + endpointFlag + "=" + endpoint
	end, used := k.command.ends[extraArgs]
	extra, isSet := k.command.variables[extraArgs]
	dropIn := File{dropInPath(k.unitName), unitText + endpoint + "\n"}
	switch {
	case used && k.flagAt < end && isSet:
		return nil, fmt.Errorf("%s sets %s: "+byHand, extra.at, extraArgs, "append "+flag+" to it")
	case used && k.flagAt < end: // a flag that is appended there wins
		dropIn.Text += "Environment=" + extraArgs + "=" + flag + "\n"
		return k.free(dropIn)
	case k.flagAt >= 0:
		return nil, fmt.Errorf("%s sets --%s: "+byHand, k.Origin, endpointFlag, "set it to "+endpoint)
	case k.configDir != "":
		own := filepath.Join(k.configDir, configDropInName)
		if k.dropIn > own {
			return nil, fmt.Errorf("%s is read after %s: remove it there, or set it to %s", k.Origin, own, endpoint)
		}
		return k.free(dropIn, File{own, fmt.Sprintf("%sapiVersion: %s\nkind: %s\n%s: %s\n",
			header, kube.KubeletAPIVersion, kube.KubeletKind, endpointField, endpoint)})
	case k.config != "":
		return nil, fmt.Errorf("%s: the kubelet has neither $%s nor --config-dir: "+byHand,
			k.command.at, extraArgs, fmt.Sprintf("set %s: %s in %s", endpointField, endpoint, k.config))
	}
	return nil, fmt.Errorf("%s: the kubelet has neither $%s nor --config-dir nor --config: "+byHand, k.command.at, extraArgs, "add "+flag)
}

// free returns files, or an error if one of them exists and was not written by Install.
func (k *Kubelet) free(files ...File) ([]File, error) {
	for _, f := range files {
		switch text, err := k.root.read(f.Path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !strings.HasPrefix(text, header):
			return nil, fmt.Errorf("%s exists and was not written by dnsconfigurer install: remove it", f.Path)
		}
	}
	return files, nil
}
