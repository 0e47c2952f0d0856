// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"encoding/json"
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
	endpointFlag  = "--container-runtime-endpoint"
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
	unit      unit
	flag      word // of the endpoint
	config    string
	configDir string
}

// ReadKubelet reads the configuration of the kubelet that a unit runs: its flags, the file of --config
// and the files of --config-dir.
func ReadKubelet(r Root, unitName string) (Kubelet, error) {
	u, err := readUnit(r, unitName)
	if err != nil {
		return Kubelet{}, err
	}
	k := Kubelet{root: r, unitName: unitName, unit: u, Endpoint: defaultEndpoint, flag: u.flag(endpointFlag),
		config: u.flag("--config").text, configDir: u.flag("--config-dir").text}
	if k.flag.text != "" {
		k.Endpoint, k.Origin = k.flag.text, k.flag.origin
		return k, nil
	}
	var files []string
	if k.configDir != "" {
		if files, err = r.list(k.configDir, kube.KubeletDropInExtension); err != nil {
			return Kubelet{}, fmt.Errorf("reading the kubelet's drop-ins: %w", err)
		}
	}
	if k.config != "" {
		files = append([]string{k.config}, files...)
	}
	for _, path := range files {
		endpoint, err := configuredEndpoint(r, path)
		if err != nil {
			return Kubelet{}, excerpt.Prefix(path, err)
		}
		if endpoint != "" {
			k.Endpoint, k.Origin = endpoint, path
		}
	}
	return k, nil
}

// configuredEndpoint returns the endpoint in a KubeletConfiguration, "" if it has none.
func configuredEndpoint(r Root, path string) (string, error) {
	text, err := r.read(path)
	if err != nil {
		return "", err
	}
	js, err := document.LenientJSON([]byte(text))
	if err != nil {
		return "", err
	}
	var c struct{ ContainerRuntimeEndpoint string }
	err = json.Unmarshal(js, &c)
	return c.ContainerRuntimeEndpoint, err
}

// Uses reports whether the kubelet's endpoint is the socket at path on the node. Only directories are
// resolved: a bypass makes the shim's socket a link to that of the runtime.
func (k *Kubelet) Uses(path string) bool {
	socket := strings.TrimPrefix(strings.TrimPrefix(k.Endpoint, "unix:"), "//")
	a, err1 := k.root.Path(filepath.Dir(socket))
	b, err2 := k.root.Path(filepath.Dir(path))
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
)

// isOwn reports whether Install has written a file.
func (r Root) isOwn(path string) bool {
	text, err := r.read(path)
	return err == nil && strings.HasPrefix(text, header)
}

// A File is a file of the kubelet's configuration that Install writes and Uninstall removes.
type File struct {
	Path string // on the node
	Text string // "": it does not exist
}

// dropInPath returns the path of the drop-in of the kubelet's unit.
func dropInPath(unit string) string {
	return filepath.Join("/etc/systemd/system", unit+".d", dropInName)
}

// ownFiles returns all files that Install may have written, except those that others have written.
func (k *Kubelet) ownFiles() (files []File, err error) {
	paths := []string{dropInPath(k.unitName)}
	if k.configDir != "" {
		paths = append(paths, filepath.Join(k.configDir, configDropInName))
	}
	for _, path := range paths {
		text, err := k.root.read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || strings.HasPrefix(text, header) {
			files = append(files, File{path, text})
		}
	}
	return files, nil
}

// Files returns the files that make the kubelet use the endpoint: none if it does so already. Files of
// others are not changed: if one of them decides the endpoint, the error says what to write there.
func (k *Kubelet) Files(endpoint string) ([]File, error) {
	if k.Uses(strings.TrimPrefix(endpoint, "unix://")) {
		return nil, nil
	}
	flag, dropIn := endpointFlag+"="+endpoint, File{dropInPath(k.unitName), unitText + endpoint + "\n"}
	extra, isSet := k.unit.variables[extraArgs]
	own := filepath.Join(k.configDir, configDropInName)
	var write, place string
	switch {
	case k.unit.extendable() && isSet:
		write, place = "append "+flag+" to "+extraArgs, extra.origin
	case k.unit.extendable():
		dropIn.Text += "Environment=" + extraArgs + "=" + flag + "\n"
		return k.free(dropIn)
	case k.flag.text != "":
		write, place = "set "+flag, k.flag.origin
	case k.configDir != "" && !(strings.HasPrefix(k.Origin, filepath.Dir(own)+"/") && k.Origin > own): // the last file wins
		return k.free(dropIn, File{own, fmt.Sprintf("%sapiVersion: %s\nkind: %s\n%s: %s\n",
			header, kube.KubeletAPIVersion, kube.KubeletKind, endpointField, endpoint)})
	case cmp.Or(k.Origin, k.config) != "":
		write, place = "set "+endpointField+": "+endpoint, cmp.Or(k.Origin, k.config)
	default:
		write, place = "add "+flag, k.unit.exec.origin
	}
	return nil, fmt.Errorf("install changes no file of others: run systemctl enable --now dnsconfigurer-shim.socket "+
		"dnsconfigurer-shim.service, %s in %s, and restart the kubelet", write, place)
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
