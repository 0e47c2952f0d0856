// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Stdin is the name of standard input in locations.
const Stdin = "stdin"

// Input are the manifests that a command reads.
type Input struct {
	// Paths are files, directories, patterns of file names as of [filepath.Match], and "-"
	// for standard input.
	Paths []string

	// Recursive includes the subdirectories of directories.
	Recursive bool

	// Strict makes unknown fields that do not affect DNS errors instead of a note.
	Strict bool

	// Namespace is that of objects without one. Read leaves them as they are.
	Namespace string
}

// Register adds the flags of commands that read manifests.
func (in *Input) Register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&in.Paths, "filename", "f", nil, "`FILE|DIR|-` with manifests, or a pattern such as 'deploy/*.yaml'; repeatable")
	flags.BoolVarP(&in.Recursive, "recursive", "R", false, "read the subdirectories of directories, too")
	flags.StringVarP(&in.Namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
}

// Check checks the input as it is set on the command line.
func (in Input) Check() error {
	if err := in.CheckNamespace(); err != nil {
		return err
	}
	if len(in.Paths) == 0 {
		return usage.Errorf("no manifests: name files, or set -f")
	}
	if slices.Contains(in.Paths, "") {
		return usage.Errorf("the name of a file is empty: want FILE, DIR or -")
	}
	return nil
}

// CheckNamespace is the part of Check about the namespace.
func (in Input) CheckNamespace() error {
	if fqdn.LabelProblems(in.Namespace) != nil {
		return usage.Errorf("--namespace %q: want a DNS label such as shop", in.Namespace)
	}
	return nil
}

// Read parses the manifests. Errors are joined; the valid objects are returned beside them. It waits for
// the rest of a terminal or a FIFO: see daemon.Interruptible.
func (in Input) Read(stdin io.Reader) (Manifest, error) {
	var all Manifest
	var errs []error
	for _, path := range in.Paths {
		files, notes, err := in.expand(path)
		errs = append(errs, err)
		all.Notes = append(all.Notes, notes...)
		for _, f := range files {
			m, err := f.read(stdin)
			errs = append(errs, err)
			all.Workloads = append(all.Workloads, m.Workloads...)
			all.Others = append(all.Others, m.Others...)
			all.Notes = append(all.Notes, m.Notes...)
			all.Unknown = append(all.Unknown, m.Unknown...)
		}
	}
	if in.Strict {
		for _, u := range all.Unknown {
			errs = append(errs, u.InputError())
		}
		all.Unknown = nil
	}
	return all, errors.Join(errs...)
}

// ReadPods is Read for manifests that must contain a pod or a pod template, unless they are
// empty.
func (in Input) ReadPods(stdin io.Reader) (Manifest, error) {
	m, err := in.Read(stdin)
	if err == nil {
		err = in.CheckPods(m)
	}
	return m, err
}

// CheckPods returns an error if m, read from in, has objects, but no pod and no pod
// template. If there is no object at all, m.Notes says so: the output of a chart whose
// objects are all switched off is not an error.
func (in Input) CheckPods(m Manifest) error {
	if len(m.Workloads) > 0 || len(m.Others) == 0 && len(m.Notes) > 0 {
		return nil
	}
	var kinds []string
	for _, o := range m.Others {
		kinds = append(kinds, o.Kind)
	}
	err := fmt.Errorf("no pod or pod template in %s", strings.Join(in.Paths, ", "))
	if len(kinds) == 0 {
		err = fmt.Errorf("%w: the List has no items: check what has written it, such as the namespace of kubectl get", err)
	} else {
		slices.Sort(kinds)
		err = fmt.Errorf("%w: found only %s", err, strings.Join(slices.Compact(kinds), ", "))
	}
	if slices.Contains(kinds, "KubeletConfiguration") {
		err = fmt.Errorf("%w: the flag for the configuration of a kubelet is --kubelet-config", err)
	}
	return err
}

// file is a file to read.
type file struct {
	path   string
	listed bool // found in a directory, which may have files that are not manifests
}

func (f file) read(stdin io.Reader) (Manifest, error) {
	if f.path == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, MaxManifest+1))
		if err != nil {
			return Manifest{}, fmt.Errorf("%s: %w", Stdin, err)
		}
		return ParseManifest(Stdin, data)
	}
	r, err := os.Open(f.path)
	if err != nil {
		return Manifest{}, unreadable(f.path, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxManifest+1))
	if err != nil {
		return Manifest{}, unreadable(f.path, err)
	}
	m, err := ParseManifest(f.path, data)
	if !f.listed {
		return m, err
	}
	var errs []error
	for _, e := range excerpt.Unjoin(err) {
		if input, ok := errors.AsType[*InputError](e); ok && errors.Is(e, ErrNotAnObject) { // such as the values of a chart
			at := input.Location
			at.Field = ""
			m.Notes = append(m.Notes, &InputError{Location: at, Err: errors.New("not a Kubernetes object, not read")})
		} else {
			errs = append(errs, e)
		}
	}
	return m, errors.Join(errs...)
}

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
