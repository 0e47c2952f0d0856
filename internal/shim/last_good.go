// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// errNoState says that there are no last good settings.
var errNoState = errors.New("no last good settings: the directory is not set")

// stateFile is the name of the file with the last good settings.
const stateFile = "last-good-shim.yaml"

// lastGood is the file with the last valid settings, which the shim uses if it starts with an
// invalid configuration. It is a ShimConfiguration with the node facts in it, so that a
// kubelet's file that became invalid does not matter. "": there is no file.
type lastGood string

// stateDirectory returns the directory that systemd passes (StateDirectory=), "" if there is none.
func stateDirectory() string {
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return dir
}

// newLastGood returns the file in the state directory.
func newLastGood() lastGood {
	dir := stateDirectory()
	if dir == "" {
		return ""
	}
	return lastGood(filepath.Join(dir, stateFile))
}

// load returns the settings.
func (l lastGood) load() (config.Shim, error) {
	if l == "" {
		return config.Shim{}, errNoState
	}
	return config.ShimKind().FromFile(string(l)).Load()
}

// save replaces the settings if they differ. After a crash the file has the old or the new ones.
func (l lastGood) save(c config.Shim) error {
	if l == "" {
		return nil
	}
	data, err := json.MarshalIndent(c.WithFacts(), "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if old, err := os.ReadFile(string(l)); err == nil && bytes.Equal(old, data) {
		return nil
	}
	write := func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
	if err := atomicfile.Write(string(l), write); err != nil {
		return fmt.Errorf("keeping the last good settings: %w", err)
	}
	return nil
}
