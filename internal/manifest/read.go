// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// Stdin is the name of standard input in locations.
const Stdin = "stdin"

// Read parses the manifests at paths: files, the files that List returns for directories,
// and "-" for stdin. Errors are joined; the valid objects are returned beside them.
func Read(paths []string, stdin io.Reader) (kube.Manifest, error) {
	var all kube.Manifest
	var errs []error
	for _, path := range paths {
		files, err := expand(path)
		errs = append(errs, err)
		for _, file := range files {
			m, err := readFile(file, stdin)
			errs = append(errs, err)
			all.Workloads = append(all.Workloads, m.Workloads...)
			all.Others = append(all.Others, m.Others...)
			all.Notes = append(all.Notes, m.Notes...)
		}
	}
	return all, errors.Join(errs...)
}

// ReadPods is Read for manifests that must contain a pod or a pod template, unless they are
// empty.
func ReadPods(paths []string, stdin io.Reader) (kube.Manifest, error) {
	m, err := Read(paths, stdin)
	if err == nil {
		err = CheckPods(paths, m)
	}
	return m, err
}

// CheckPods returns an error if m, read from paths, has objects, but no pod and no pod
// template. If there is no object at all, m.Notes says so: the output of a chart whose
// objects are all switched off is not an error.
func CheckPods(paths []string, m kube.Manifest) error {
	if len(m.Workloads) > 0 || len(m.Others) == 0 && len(m.Notes) > 0 {
		return nil
	}
	var kinds []string
	for _, o := range m.Others {
		kinds = append(kinds, o.Kind)
	}
	err := fmt.Errorf("no pod or pod template in %s", strings.Join(paths, ", "))
	if len(kinds) > 0 {
		slices.Sort(kinds)
		err = fmt.Errorf("%w: found only %s", err, strings.Join(slices.Compact(kinds), ", "))
	}
	return err
}

// expand returns the files at a path of Read.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := List(path)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no .yaml, .yml or .json file in directory %s: subdirectories are not read", path)
	}
	return files, err
}

func readFile(file string, stdin io.Reader) (kube.Manifest, error) {
	if file == "-" {
		return parse(Stdin, stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return kube.Manifest{}, err
	}
	defer f.Close()
	return parse(file, f)
}

func parse(name string, r io.Reader) (kube.Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, kube.MaxManifest+1))
	if err != nil {
		return kube.Manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	return kube.ParseManifest(name, data)
}
