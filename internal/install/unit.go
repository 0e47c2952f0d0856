// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// unitDirs are the directories of units, the first one wins (systemd.unit(5)).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system"}

// A place is a line of a file.
type place struct {
	file string // on the node
	line int    // from 1
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// A setting is a value in a unit.
type setting struct {
	place
	value string
}

// unit is the [Service] section of a unit with its drop-ins, as far as it decides the command.
type unit struct {
	exec                          setting // the last ExecStart=
	environment, environmentFiles []setting
}

// readUnit reads a unit and its drop-ins.
func readUnit(r Root, name string) (unit, error) {
	files, err := unitFiles(r, name)
	if err != nil {
		return unit{}, err
	}
	var u unit
	for _, file := range files {
		text, err := r.read(file)
		if err != nil {
			return unit{}, err
		}
		if err := u.parse(file, text); err != nil {
			return unit{}, err
		}
	}
	if u.exec.value == "" {
		return unit{}, fmt.Errorf("%s: has no ExecStart=", files[0])
	}
	return u, nil
}

// unitFiles returns the file of a unit and those of its drop-ins, in the order of systemd.
func unitFiles(r Root, name string) ([]string, error) {
	var files []string
	for _, dir := range unitDirs {
		path := filepath.Join(dir, name)
		if _, err := r.read(path); err == nil {
			files = append(files, path)
			break
		} else if !errors.Is(err, fs.ErrNotExist) { // also a masked unit, which is a link to /dev/null
			return nil, err
		}
	}
	if files == nil {
		return nil, fmt.Errorf("unit %s not found in %s: set --kubelet-unit to the unit of the kubelet", name, strings.Join(unitDirs, ", "))
	}
	dropIns := map[string]string{} // path by file name
	for _, dir := range slices.Backward(unitDirs) {
		paths, err := r.list(filepath.Join(dir, name+".d"), ".conf")
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if filepath.Dir(path) == filepath.Join(dir, name+".d") { // systemd does not read subdirectories
				dropIns[filepath.Base(path)] = path
			}
		}
	}
	for _, base := range slices.Sorted(maps.Keys(dropIns)) {
		files = append(files, dropIns[base])
	}
	return files, nil
}

// parse adds the settings of a file.
func (u *unit) parse(file, text string) error {
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		at, line := place{file, i + 1}, lines[i]
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) && !isComment(line) {
			i++
			line = strings.TrimSuffix(line, "\\") + " " + lines[i]
		}
		key, value, found := strings.Cut(line, "=")
		switch {
		case isComment(line):
		case strings.HasPrefix(line, "["):
			section = strings.TrimSpace(line)
		case section == "[Service]" && found:
			u.add(strings.TrimSpace(key), setting{at, strings.TrimSpace(value)})
		case !found && strings.TrimSpace(line) != "":
			return fmt.Errorf("%s: %q is neither a section nor a setting", at, line)
		}
	}
	return nil
}

// isComment reports whether a line of a unit or of an environment file is a comment.
func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
}

// add adds a setting. An empty value resets a list.
func (u *unit) add(key string, s setting) {
	switch key {
	case "ExecStart":
		u.exec = s
	case "Environment":
		u.environment = appendOrReset(u.environment, s)
	case "EnvironmentFile":
		u.environmentFiles = appendOrReset(u.environmentFiles, s)
	}
}

func appendOrReset(list []setting, s setting) []setting {
	if s.value == "" {
		return nil
	}
	return append(list, s)
}

// allUnits are the units of the shim.
var allUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service", "dnsconfigurer-bypass.service"}

// runningUnits are the units that run while the shim serves. systemd starts the other one, the
// bypass, when the service fails.
var runningUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service"}

// Systemctl is the program that controls systemd.
type Systemctl struct{ Program string }

// Run runs systemctl with arguments.
func (s Systemctl) Run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, s.Program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// runUnits runs systemctl with arguments, followed by units.
func (s Systemctl) runUnits(ctx context.Context, units []string, args ...string) error {
	return s.Run(ctx, append(args, units...)...)
}

// isStartedWithShim reports whether a unit runs in a process that was started with the drop-in of
// Install: the process has its variable.
func (s Systemctl) isStartedWithShim(ctx context.Context, unit string) (with, running bool, err error) {
	out, err := exec.CommandContext(ctx, s.Program, "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return false, false, fmt.Errorf("systemctl show %s: %w", unit, err)
	}
	pid := strings.TrimSpace(string(out))
	if pid == "" || pid == "0" {
		return false, false, nil
	}
	environment, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		return false, false, fmt.Errorf("reading the environment of %s: %w", unit, err)
	}
	return bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+startedWith+"=")), true, nil
}

// settleTime is how long a kubelet must stay active after a restart: one that rejects its
// configuration ends within a second.
const settleTime = 3 * time.Second

// Restart restarts a unit and returns an error unless it stays active.
func (s Systemctl) Restart(ctx context.Context, unit string) error {
	if err := s.Run(ctx, "restart", unit); err != nil {
		return err
	}
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		if err := s.Run(ctx, "is-active", "--quiet", unit); err != nil {
			return fmt.Errorf("%s does not stay active, see journalctl -u %s: %w", unit, unit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime / 10):
		}
	}
	return nil
}
