// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// MaxFile is the maximum size of a configuration file in bytes. etcd stores 1.5 MB for a ConfigMap.
const MaxFile = 4 << 20

// Files reads configuration files and detects changes. The zero value is ready for use. It is
// not safe for concurrent use.
type Files struct {
	given  map[string][]byte // texts that Read returns instead of those on disk, by path
	loaded map[string]digest // by path, when Read was called
	polled map[string]digest // by path, when Changed was last called

	settled bool // the last two calls of Changed found the same
}

// digest identifies the content of a file, or the error of reading it.
type digest [sha256.Size]byte

func readDigest(path string) ([]byte, digest, error) {
	data, err := readLimited(path)
	if err != nil {
		return nil, sha256.Sum256([]byte("\x00" + err.Error())), err
	}
	return data, sha256.Sum256(data), nil
}

// readLimited is [os.ReadFile] for files of at most MaxFile bytes.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("larger than %d bytes: a configuration file has a few kilobytes", MaxFile)
	}
	return data, err
}

// Read returns the content of a file, of at most MaxFile bytes.
func (f *Files) Read(path string) ([]byte, error) {
	if data, ok := f.given[path]; ok {
		return data, nil
	}
	data, d, err := readDigest(path)
	f.record(path, d)
	return data, err
}

// Track makes Changed notice changes of a file that others read.
func (f *Files) Track(path string) {
	var d digest
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() { // a pipe can be read only once
		_, d, _ = readDigest(path)
	}
	f.record(path, d)
}

// List returns the files with an extension in a directory and those below it, in lexical order.
func (f *Files) List(dir, extension string) ([]string, error) {
	paths, d, err := listDigest(dir)
	f.record(dir, d)
	return slices.DeleteFunc(paths, func(path string) bool { return filepath.Ext(path) != extension }), err
}

// listDigest returns all files in a directory and below it, in lexical order.
func listDigest(dir string) (paths []string, _ digest, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	return paths, sha256.Sum256(fmt.Appendf(nil, "\x00%q %v", paths, err)), err
}

func (f *Files) record(path string, d digest) {
	if f.loaded == nil {
		f.loaded = map[string]digest{}
	}
	f.loaded[path] = d
}

// Changed polls the files that were read. It reports whether they must be read again: a file has changed
// since, and none has changed since the previous call of Changed. The second condition avoids reading a
// file while it is being written.
func (f *Files) Changed() bool {
	now := maps.Clone(f.loaded)
	for path := range now {
		switch info, err := os.Stat(path); {
		case err == nil && info.IsDir():
			_, now[path], _ = listDigest(path)
		case err != nil || info.Mode().IsRegular(): // a pipe can be read only once; its digest stays
			_, now[path], _ = readDigest(path)
		}
	}
	f.settled = maps.Equal(now, f.polled)
	f.polled = now
	return f.settled && !maps.Equal(now, f.loaded)
}

// Settled reports whether no file has changed between the last two calls of Changed.
func (f *Files) Settled() bool { return f.settled }

// File is a configuration file whose text has been read.
type File struct {
	Path string // the text may be from elsewhere; relative paths in it start at the directory of Path
	Text []byte
}

// ReadFile reads the configuration file at path, of at most MaxFile bytes.
func ReadFile(path string) (File, error) {
	data, err := readLimited(path)
	if err != nil {
		return File{}, Unreadable(path, err)
	}
	return File{path, data}, nil
}

// Kind returns the kind of a file.
func (f File) Kind() (string, error) {
	t, err := v1alpha1.ReadTypeMeta(f.Text)
	if err != nil {
		return "", f.Locate(err)
	}
	return t.Kind, nil
}

// Locate returns an error of decoding the file, or several that are joined, with their places.
func (f File) Locate(err error) error { return join(f.Places().locate(err)) }

// Places returns the places of the fields of a file.
func (f File) Places() *Places { return &Places{f.Path, document.NewPositions(f.Text)} }

// Files returns files that read f from its text.
func (f File) Files() Files { return Files{given: map[string][]byte{f.Path: f.Text}} }

// Unreadable returns the error of reading the file at path, without the system call.
func Unreadable(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == path {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// RelativeTo resolves name from the directory of file, as the kubelet does in its own
// file. "" stays "".
func RelativeTo(file, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

// CheckFiles returns an error for each file or directory that a field with the tag file names and that does not exist.
// Servers report it when they start, or start without it.
func (s *Source[C]) CheckFiles(c *C) error {
	p := &Problems{origin: s.Origin}
	p.addMissing(api(c), "", "")
	return p.Err()
}

// addMissing adds the files that are missing in v, a field with a tag or an item of its list.
func (p *Problems) addMissing(v reflect.Value, path string, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			p.addMissing(v.Field(i), strings.TrimPrefix(path+"."+name, "."), f.Tag)
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.addMissing(v.Index(i), fmt.Sprintf("%s[%d]", path, i), tag)
		}
	case reflect.String:
		if tag.Get("file") == "true" && v.String() != "" {
			if _, err := os.Stat(v.String()); errors.Is(err, fs.ErrNotExist) {
				p.Add(path, fmt.Errorf("%s: no such file or directory", v))
			}
		}
	}
}
