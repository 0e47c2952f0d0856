// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// recordPath is the file with the edits of an installation. It is written before them, so that a
// crash between two edits leaves nothing that uninstall does not know.
const recordPath = "/var/lib/dnsconfigurer/install.json"

// record lists the edits in the order in which they were made.
type record struct {
	Edits []Edit `json:"edits,omitempty"`

	// Invocation is that of the kubelet which ran when systemd had read the last edits. It may use the
	// configuration from before them. "": no kubelet ran.
	Invocation string `json:"kubeletInvocation,omitempty"`
}

// loadRecord returns the record, an empty one if there is none.
func loadRecord(r Root) (rec record, err error) {
	text, err := r.read(recordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err == nil {
		if err = json.Unmarshal([]byte(text), &rec); err != nil {
			err = fmt.Errorf("%s: %w", recordPath, err)
		}
	}
	return rec, err
}

// add adds edits that are not in the record yet.
func (rec record) add(edits []Edit) record {
	all := slices.Clone(rec.Edits)
	for _, e := range edits {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return record{Edits: all, Invocation: rec.Invocation}
}

// save writes the record; an empty one is removed.
func (rec record) save(r Root) error {
	path, err := r.Path(recordPath)
	if err == nil {
		err = r.removeLeftovers(recordPath)
	}
	if err != nil {
		return err
	}
	if len(rec.Edits) == 0 && rec.Invocation == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return write(path, 0o600, string(text)+"\n")
}
