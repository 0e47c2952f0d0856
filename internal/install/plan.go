// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// dropInName is the name of the drop-in for the kubelet's unit. 10-kubeadm.conf comes before it.
const dropInName = "20-dnsconfigurer.conf"

// configDropInName is the name of the file in the directory of --config-dir. It comes after those
// of most others.
const configDropInName = "90-dnsconfigurer.conf"

// unitText orders the kubelet after the shim. The kubelet does not require the shim: stopping
// the shim must not stop it.
const unitText = `# Written by dnsconfigurer install; dnsconfigurer uninstall removes it.
[Unit]
Wants=dnsconfigurer-shim.socket
After=dnsconfigurer-shim.socket dnsconfigurer-shim.service
`

// Edits returns what makes the kubelet use the endpoint.
func (k *Kubelet) Edits(endpoint string) ([]Edit, error) {
	if k.Uses(config.SocketPath(endpoint)) {
		return nil, nil
	}
	if end, used := k.command.ends[extraArgs]; used && k.flagAt < end { // a flag that is appended there wins
		return k.editExtraArgs(endpoint)
	}
	if k.flagAt >= 0 {
		return nil, fmt.Errorf("%s sets --%s, which overrides the kubelet's configuration: remove "+
			"the flag there, or set it to %s", k.Origin, endpointFlag, endpoint)
	}
	edit, err := k.editConfig(endpoint)
	if err != nil {
		return nil, err
	}
	return k.withUnit(edit, unitText)
}

// withUnit returns the edits of the unit's drop-in and of another file, if it has a path.
func (k *Kubelet) withUnit(other Edit, unitText string) ([]Edit, error) {
	dropIn, err := k.root.edit(filepath.Join("/etc/systemd/system", k.unitName+".d", dropInName), unitText)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc([]Edit{dropIn, other}, func(e Edit) bool { return e.Path == "" || e.Before == e.After }), nil
}

// edit returns the edit after which a file has the text.
func (r Root) edit(path, text string) (Edit, error) {
	old, err := r.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err := r.Path(filepath.Dir(path))
		_, statErr := os.Stat(dir)
		return Edit{Path: path, Created: true, CreatedDirectory: errors.Is(statErr, fs.ErrNotExist), After: text}, err
	}
	return Edit{Path: path, Before: old, After: text}, err
}

// editExtraArgs adds the flag to the variable for the operator's flags: in the file that sets it,
// so that later changes there still count, or else in a drop-in of the unit. kubeadm rewrites the
// kubelet's configuration file when it upgrades a node, but not this.
func (k *Kubelet) editExtraArgs(endpoint string) ([]Edit, error) {
	flag := "--" + endpointFlag + "=" + endpoint
	v, isSet := k.command.variables[extraArgs]
	if !isSet {
		text := unitText + "\n[Service]\nEnvironment=" + extraArgs + "=" + flag + "\n"
		return k.withUnit(Edit{}, text)
	}
	if !strings.HasPrefix(v.at.file, "/etc/") {
		return nil, fmt.Errorf("%s sets %s in a file that is not in /etc: set it in "+
			"/etc/default/kubelet or in a drop-in in /etc/systemd/system/%s.d, with %s",
			v.at, extraArgs, k.unitName, flag)
	}
	edit, err := k.editVariable(v, strings.TrimLeft(withoutEndpoint(v.value)+" "+flag, " "))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w: append %s by hand", v.at, extraArgs, err, flag)
	}
	return k.withUnit(edit, unitText)
}

// endpointArgument matches the flag in a variable.
var endpointArgument = regexp.MustCompile(`(^|\s)--?` + endpointFlag + `(=|\s+)\S+`)

// withoutEndpoint returns flags without the endpoint's.
func withoutEndpoint(flags string) string {
	return strings.TrimSpace(endpointArgument.ReplaceAllString(flags, ""))
}

// editVariable replaces the value of a variable in its line.
func (k *Kubelet) editVariable(v variable, value string) (Edit, error) {
	if strings.ContainsAny(value, "\"'\\") {
		return Edit{}, errors.New("the value has quotes or a backslash")
	}
	text, err := k.root.read(v.at.file)
	if err != nil {
		return Edit{}, err
	}
	all := lines(text)
	if v.at.line > len(all) { // written by another program since the unit was read
		return Edit{}, errors.New("the file has changed meanwhile")
	}
	line := all[v.at.line-1]
	to := v.from + len(v.text)
	if to > len(line) || line[v.from:to] != v.text {
		return Edit{}, errors.New("the value spans several lines")
	}
	all[v.at.line-1] = line[:v.from] + `"` + v.prefix + value + `"` + line[to:]
	return Edit{Path: v.at.file, Before: text, After: strings.Join(all, "")}, nil
}

// editConfig sets the field: in a file of its own in the directory of --config-dir, or in the file of
// --config.
func (k *Kubelet) editConfig(endpoint string) (Edit, error) {
	switch {
	case k.configDir != "":
		own := filepath.Join(k.configDir, configDropInName)
		if k.dropIn > own {
			return Edit{}, fmt.Errorf("%s is read after %s: remove it there, or set it to %s", k.Origin, own, endpoint)
		}
		text := fmt.Sprintf("# Written by dnsconfigurer install; dnsconfigurer uninstall removes it.\napiVersion: %s\nkind: %s\n%s: %s\n",
			kube.KubeletAPIVersion, kube.KubeletKind, endpointField, endpoint)
		return k.root.edit(own, text)
	case k.config != "":
		text, err := k.root.read(k.config)
		if err != nil {
			return Edit{}, err
		}
		after, err := setField(text, endpoint)
		if err != nil {
			return Edit{}, fmt.Errorf("%s: %w: set %s to %s by hand", k.config, err, endpointField, endpoint)
		}
		return Edit{Path: k.config, Before: text, After: after}, nil
	}
	return Edit{}, fmt.Errorf("%s: the kubelet's command has neither $%s nor --config nor --config-dir: add --%s=%s to it",
		k.command.at, extraArgs, endpointFlag, endpoint)
}

var (
	yamlField = regexp.MustCompile(`(?m)^` + endpointField + `:.*$`)
	yamlKind  = regexp.MustCompile(`(?m)^kind:.*\n`)
	jsonField = regexp.MustCompile(`("` + endpointField + `"\s*:\s*)("[^"]*"|null)`)
)

// setField sets the endpoint in the text of a KubeletConfiguration. It keeps comments and order,
// and checks that nothing else has changed.
func setField(text, endpoint string) (string, error) {
	want, err := configFields(text)
	if err != nil {
		return "", err
	}
	want[endpointField] = endpoint
	var after string
	switch {
	case jsonField.MatchString(text):
		after = jsonField.ReplaceAllString(text, `${1}"`+endpoint+`"`)
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		after = strings.Replace(text, "{", `{"`+endpointField+`": "`+endpoint+`",`, 1)
	case yamlField.MatchString(text):
		after = yamlField.ReplaceAllString(text, endpointField+": "+endpoint)
	default:
		after = yamlKind.ReplaceAllStringFunc(text, func(kind string) string { return kind + endpointField + ": " + endpoint + "\n" })
	}
	got, err := configFields(after)
	if err != nil || !reflect.DeepEqual(got, want) {
		return "", errors.New("the file has a form that cannot be edited")
	}
	return after, nil
}
