// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// readManifests is readAll where there must be a pod or a pod template.
func readManifests(paths []string, in io.Reader) (kube.Manifest, error) {
	m, err := readAll(paths, in)
	if len(m.Workloads) == 0 && err == nil {
		err = nothingFound(paths, m.Others)
	}
	return m, err
}

// readAll reads the objects of all paths: files, directories (the .yaml, .yml and
// .json files in them, not deeper) and "-" for in. What can be read is returned
// beside the error.
func readAll(paths []string, in io.Reader) (kube.Manifest, error) {
	var all kube.Manifest
	var errs []error
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			m, err := readManifest(file, in)
			if err != nil {
				errs = append(errs, err)
			}
			all.Workloads = append(all.Workloads, m.Workloads...)
			all.Others = append(all.Others, m.Others...)
		}
	}
	return all, errors.Join(errs...)
}

// nothingFound says that there is no pod in paths, and what there is.
func nothingFound(paths []string, others []kube.Object) error {
	found := "" // nothing but empty Lists
	var kinds []string
	for _, o := range others {
		kinds = append(kinds, o.Kind)
	}
	if kinds != nil {
		slices.Sort(kinds)
		found = ", only " + strings.Join(slices.Compact(kinds), ", ")
	}
	return fmt.Errorf("no pod and no pod template in %s%s", strings.Join(paths, ", "), found)
}

// stdinName is what standard input is called in locations.
const stdinName = "stdin"

// manifestFiles lists the files that path stands for, in order of their names.
func manifestFiles(path string) ([]string, error) {
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
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s: holds no .yaml, .yml or .json file; subdirectories are not read", path)
	}
	return files, nil
}

func readManifest(file string, in io.Reader) (kube.Manifest, error) {
	name := file
	if file == "-" {
		name = stdinName
	} else {
		f, err := os.Open(file)
		if err != nil {
			return kube.Manifest{}, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, kube.MaxManifest+1))
	if err != nil {
		return kube.Manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	return kube.ParseManifest(name, data)
}
