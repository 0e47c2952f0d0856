// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// Files reads configuration files and remembers a digest of each, to detect changes. The
// zero value is ready for use, by one goroutine.
type Files struct {
	read map[string]Digest // by path
}

// Digest identifies the content of a file, or the error for which it cannot be read.
type Digest [sha256.Size]byte

func readDigest(path string) ([]byte, Digest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, sha256.Sum256([]byte("\x00" + err.Error())), err
	}
	return data, sha256.Sum256(data), nil
}

// Read reads a file.
func (f *Files) Read(path string) ([]byte, error) {
	data, d, err := readDigest(path)
	if f.read == nil {
		f.read = map[string]Digest{}
	}
	f.read[path] = d
	return data, err
}

// AsRead returns the digests of the files as they were read.
func (f *Files) AsRead() map[string]Digest { return f.read }

// Now returns the digests of the same files as they are now. A path that is not a regular
// file, such as a pipe, can be read once only and keeps its digest.
func (f *Files) Now() map[string]Digest {
	now := maps.Clone(f.read)
	for path := range now {
		if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
			_, now[path], _ = readDigest(path)
		}
	}
	return now
}

// Reset forgets all files.
func (f *Files) Reset() { clear(f.read) }

// ReadAs reads a configuration file strictly and checks its values. Without a path it
// returns the zero configuration.
func ReadAs[T any](f *Files, path string, parse func([]byte) (T, error), check func(T) error) (c T, err error) {
	if path == "" {
		return c, nil
	}
	data, err := f.Read(path)
	if err != nil {
		return c, fmt.Errorf("reading the configuration: %w", err)
	}
	if c, err = parse(data); err == nil {
		err = check(c)
	}
	if err != nil {
		return c, multierr.Prefix(path, err)
	}
	return c, nil
}

// relativeTo resolves name from the directory of file, as the kubelet does in its own
// file. "" stays "".
func relativeTo(file, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

// ReadKind returns the kind of the configuration file at path.
func ReadKind(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the configuration: %w", err)
	}
	t, err := v1alpha1.ReadTypeMeta(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return t.Kind, nil
}
