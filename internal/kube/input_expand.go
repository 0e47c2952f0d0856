// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// expand returns the files at a path, and notes about what is passed over.
func (in Input) expand(path string) (files []file, notes []error, _ error) {
	if path == "-" {
		return []file{{path: path}}, nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		return in.expandPattern(path)
	case err != nil:
		return nil, nil, unreadable(path, err)
	case !info.IsDir():
		return []file{{path: path}}, nil, nil
	case isChart(path):
		return nil, nil, chartNote(path)
	case in.Recursive:
		return expandTree(path)
	}
	return expandDirectory(path)
}

// unreadable returns the error of reading a file, without the name of a system call.
func unreadable(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path, err = e.Path, e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// expandPattern returns the files that match a pattern.
func (in Input) expandPattern(pattern string) (files []file, notes []error, _ error) {
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = errors.New("no file matches")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", pattern, err)
	}
	var errs []error
	for _, p := range paths {
		f, n, err := in.expand(p)
		files, notes, errs = append(files, f...), append(notes, n...), append(errs, err)
	}
	return files, notes, errors.Join(errs...)
}

// expandDirectory returns the manifests in a directory without its subdirectories.
func expandDirectory(directory string) (files []file, notes []error, _ error) {
	paths, err := ListManifests(directory)
	if err != nil {
		return nil, nil, unreadable(directory, err)
	}
	below, err := subdirectories(directory)
	switch {
	case err != nil:
		return nil, nil, err
	case len(paths) == 0 && below > 0:
		return nil, nil, note(directory, "no .yaml, .yml or .json file in this directory", "set -R to read its subdirectories")
	case len(paths) == 0:
		return nil, nil, note(directory, "no .yaml, .yml or .json file in this directory", "")
	case below == 1:
		notes = append(notes, note(directory, "1 subdirectory is not read", "set -R to read it"))
	case below > 1:
		notes = append(notes, note(directory, fmt.Sprintf("%d subdirectories are not read", below), "set -R to read them"))
	}
	for _, p := range paths {
		files = append(files, file{p, true})
	}
	return files, notes, nil
}

// subdirectories returns the number of subdirectories, without hidden ones.
func subdirectories(directory string) (n int, _ error) {
	entries, err := os.ReadDir(directory)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n, err
}

// expandTree returns the manifests in a directory and its subdirectories. Charts are passed
// over: their templates are not YAML. So are links to directories, which may lead in circles. A
// directory that cannot be read is an error, beside the files of the others.
func expandTree(root string) (files []file, notes []error, _ error) {
	var errs []error
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, unreadable(path, err))
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir() && isChart(path):
			notes = append(notes, chartNote(path))
			return fs.SkipDir
		case e.Type()&fs.ModeSymlink != 0 && isDirectory(path):
			notes = append(notes, note(path, "a link to a directory is not read", "name the directory itself"))
		case e.Type()&^fs.ModeSymlink == 0 && slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, file{path, true})
		}
		return nil
	})
	if err = errors.Join(append(errs, err)...); err == nil && len(files) == 0 && len(notes) == 0 {
		err = note(root, "no .yaml, .yml or .json file in this directory and its subdirectories", "")
	}
	return files, notes, err
}

// isChart reports whether a directory is a Helm chart.
func isChart(directory string) bool {
	info, err := os.Stat(filepath.Join(directory, "Chart.yaml"))
	return err == nil && info.Mode().IsRegular()
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// chartNote returns the note about a Helm chart.
func chartNote(path string) error {
	return note(path, "a Helm chart is not read", "render it first, and read the output with -f -: helm template "+path)
}

// note returns a note about a path.
func note(path, text, hint string) error {
	return &InputError{Location: Location{File: path}, Err: errors.New(text), Hint: hint}
}

// extensions are those of manifests. Other files in a directory are ignored.
var extensions = []string{".yaml", ".yml", ".json"}

// ListManifests returns the paths of the manifests in a directory, sorted by name. It does not
// descend into subdirectories.
func ListManifests(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(directory, e.Name()))
		}
	}
	return files, nil
}
