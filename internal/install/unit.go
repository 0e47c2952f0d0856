// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

// unitDirs are the directories of units, the first one wins (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system"}

// A word is a text of a unit or of an environment file.
type word struct {
	text   string
	origin string // file:line
}

// unit is a unit with its drop-ins, as far as it decides the command.
type unit struct {
	exec             word // the last ExecStart=
	environmentFiles []string
	variables        map[string]word // of Environment= and EnvironmentFile=
}

// readUnit reads a unit and its drop-ins. It knows the forms of the units of kubeadm and of distributions:
// escape sequences and specifiers are kept as they are.
func readUnit(r Root, name string) (unit, error) {
	files, err := unitFiles(r, name)
	if err != nil {
		return unit{}, err
	}
	u := unit{variables: map[string]word{}}
	for _, file := range files {
		if err := r.settings(file, u.set); err != nil {
			return unit{}, err
		}
	}
	for _, file := range u.environmentFiles { // they override Environment=
		path, optional := strings.CutPrefix(file, "-")
		err := r.settings(path, func(key string, value word) {
			u.variables[key] = word{strings.Trim(value.text, `"'`), value.origin}
		})
		if err != nil && !(optional && errors.Is(err, fs.ErrNotExist)) {
			return unit{}, fmt.Errorf("EnvironmentFile=%s: %w", file, err)
		}
	}
	if len(splitWords(u.exec.text)) == 0 {
		return unit{}, fmt.Errorf("%s: has no ExecStart=", files[0])
	}
	return u, nil
}

// set sets a setting. An empty value resets a list.
func (u *unit) set(key string, value word) {
	switch {
	case key == "ExecStart":
		u.exec = value
	case key == "EnvironmentFile" && value.text == "":
		u.environmentFiles = nil
	case key == "EnvironmentFile":
		u.environmentFiles = append(u.environmentFiles, value.text)
	case key == "Environment" && value.text == "":
		clear(u.variables)
	case key == "Environment":
		for _, text := range splitWords(value.text) {
			name, text, _ := strings.Cut(text, "=")
			u.variables[name] = word{text, value.origin}
		}
	}
}

// unitFiles returns the file of a unit and those of its drop-ins, in the order of systemd.
func unitFiles(r Root, name string) ([]string, error) {
	var files []string
	dropIns := map[string]string{} // path by file name
	for _, dir := range slices.Backward(unitDirs) {
		path := filepath.Join(dir, name)
		if _, err := r.read(path); err == nil {
			files = []string{path}
		} else if !errors.Is(err, fs.ErrNotExist) { // also a masked unit, which is a link to /dev/null
			return nil, err
		}
		paths, err := r.list(path+".d", ".conf")
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if filepath.Dir(p) == path+".d" { // systemd does not read subdirectories
				dropIns[filepath.Base(p)] = p
			}
		}
	}
	if files == nil {
		return nil, fmt.Errorf("unit %s not found in %s: set --kubelet-unit to the unit of the kubelet", name, strings.Join(unitDirs, ", "))
	}
	for _, base := range slices.Sorted(maps.Keys(dropIns)) {
		files = append(files, dropIns[base])
	}
	return files, nil
}

// settings calls yield with each line KEY=VALUE of a file. A backslash at the end of a line continues it.
func (r Root) settings(path string, yield func(key string, value word)) error {
	text, err := r.read(path)
	if err != nil {
		return err
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, origin := strings.TrimSpace(lines[i]), fmt.Sprintf("%s:%d", path, i+1)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + lines[i]
		}
		if key, value, found := strings.Cut(line, "="); found {
			yield(strings.TrimSpace(key), word{strings.TrimSpace(value), origin})
		}
	}
	return nil
}

// wordPattern matches a word of a line (systemd.syntax(7), Quoting).
var wordPattern = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)

// splitWords returns the words of a line without their quotes.
func splitWords(line string) []string {
	words := wordPattern.FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.NewReplacer(`"`, "", "'", "").Replace(w)
	}
	return words
}

// extendable reports whether $KUBELET_EXTRA_ARGS ends the command: the flags in the variable win over others.
func (u *unit) extendable() bool {
	words := splitWords(u.exec.text)
	last := words[len(words)-1]
	return last == "$"+extraArgs || last == "${"+extraArgs+"}"
}

// flag returns the value of a flag on the command line: the last one counts.
func (u *unit) flag(name string) (value word) {
	words := u.words()
	for i, w := range words {
		switch flag, text, found := strings.Cut(w.text, "="); {
		case flag != name:
		case found:
			value = word{text, w.origin}
		case i+1 < len(words):
			value = word{words[i+1].text, w.origin}
		}
	}
	return value
}

// words returns the command line with the values of variables (systemd.service(5), Command Lines): a word
// $NAME is replaced by the words of the variable.
func (u *unit) words() (words []word) {
	for _, text := range splitWords(u.exec.text) {
		name, isVariable := strings.CutPrefix(text, "$")
		if !isVariable || strings.HasPrefix(name, "{") {
			value := os.Expand(text, func(name string) string { return u.variables[name].text })
			words = append(words, word{value, u.exec.origin})
			continue
		}
		for _, text := range splitWords(u.variables[name].text) {
			words = append(words, word{text, u.variables[name].origin})
		}
	}
	return words
}

// maxLinks is the number of symbolic links that Linux follows in a path (path_resolution(7)).
const maxLinks = 40

// maxFile limits the files that are read, in bytes. etcd's largest object has 1.5 MiB.
const maxFile = 1 << 20

// A Root is the root directory of a node, "/" for this one.
type Root string

// IsThisMachine reports whether the node is this machine.
func (r Root) IsThisMachine() bool { return filepath.Clean(string(r)) == "/" }

// Path returns the path on this machine of an absolute path on the node. Symbolic links,
// absolute ones too, are followed below the root, as chroot(2) does.
func (r Root) Path(path string) (string, error) {
	done, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	for len(rest) > 0 {
		next := filepath.Join(done, rest[0]) // ".." of "/" is "/"
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(string(r), next))
		if err != nil { // not a link, or absent
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many levels of symbolic links", path)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(string(r), done), nil
}

// read returns the text of a file, which must be regular.
func (r Root) read(path string) (string, error) {
	real, err := r.Path(path)
	if err != nil {
		return "", err
	}
	text, err := atomicfile.ReadRegular(real, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", real, err)
	}
	return string(text), err
}

// list returns the paths of the files with an extension in a directory and those below it, in
// lexical order. A directory that does not exist has none.
func (r Root) list(dir, extension string) (paths []string, _ error) {
	real, err := r.Path(dir)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(real, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(path) == extension {
			paths = append(paths, filepath.Join(dir, strings.TrimPrefix(path, real)))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return paths, err
}

// write writes a file, and the directories above it. It removes what a write that was killed has left.
func (r Root) write(path, text string) error {
	real, err := r.Path(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		return err
	}
	err = atomicfile.RemoveLeftovers(real)
	if err == nil {
		err = atomicfile.WriteText(real, 0o644, text)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// remove removes a file, if it exists, and what a write that was killed has left.
func (r Root) remove(path string) error {
	real, err := r.Path(path)
	if err != nil {
		return err
	}
	for _, err := range []error{atomicfile.RemoveLeftovers(real), os.Remove(real)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
