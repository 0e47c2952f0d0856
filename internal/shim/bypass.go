// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

const (
	// recordFile is the name of the record. The units have a condition on it.
	recordFile = "bypass.json"

	// runtimeLink is the name of a link to the runtime's socket. The unit of the bypass uses it
	// if the program does not run.
	runtimeLink = "runtime.sock"
)

// A Bypass lets a node continue without its shim: the shim's socket becomes a link to that
// of the container runtime, so that the kubelet reconnects to the runtime without a restart. A
// record keeps systemd from starting the shim until the bypass ends by command.
type Bypass struct {
	Socket  string // path of the shim's socket
	Runtime string // path of the runtime's socket
	State   string // directory of the record
}

// A BypassRecord describes a bypass.
type BypassRecord struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Runtime string    `json:"runtime"`
}

// Active returns the record of the bypass, nil if there is none.
func (b *Bypass) Active() (*BypassRecord, error) {
	path := filepath.Join(b.State, recordFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r BypassRecord
	if json.Unmarshal(data, &r) != nil { // the shell command of the unit writes an empty record
		r = BypassRecord{Reason: "begun without a working program, or the record is damaged"}
		if info, err := os.Stat(path); err == nil {
			r.Since = info.ModTime().UTC().Truncate(time.Second)
		}
	}
	return &r, nil
}

// Begin makes the shim's socket a link to the runtime's. Every step is tried, because the link
// matters most: without the record the link lasts until the socket's unit is started.
func (b *Bypass) Begin(reason string) error {
	active, err := b.Active()
	if err == nil && active == nil {
		err = b.writeRecord(BypassRecord{Since: time.Now().UTC().Truncate(time.Second), Reason: reason, Runtime: b.Runtime})
	}
	return errors.Join(err, b.link(b.Socket))
}

// End ends the bypass: the shim's unit may start, which replaces the link by the socket.
func (b *Bypass) End() error {
	if info, err := os.Lstat(b.Socket); err == nil && info.Mode().Type() == fs.ModeSymlink {
		if err := os.Remove(b.Socket); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(b.State, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = atomicfile.RemoveLeftovers(filepath.Join(b.State, recordFile)) // best effort: they change nothing
	return nil
}

// LinkRuntime writes the link to the runtime's socket that the unit of the bypass uses if the program does not run.
func (b *Bypass) LinkRuntime() error {
	return b.link(filepath.Join(b.State, runtimeLink))
}

// link replaces path by a link to the runtime's socket.
func (b *Bypass) link(path string) error {
	if target, err := os.Readlink(path); err == nil && target == b.Runtime {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid()))
	_ = os.Remove(temporary) // of a process that was killed
	if err := os.Symlink(b.Runtime, temporary); err != nil {
		return err
	}
	defer os.Remove(temporary) // no-op after the rename
	return os.Rename(temporary, path)
}

func (b *Bypass) writeRecord(r BypassRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.State, 0o700); err != nil {
		return err
	}
	return atomicfile.WriteText(filepath.Join(b.State, recordFile), 0o600, string(data)+"\n")
}
