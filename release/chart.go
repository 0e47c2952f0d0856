// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// versionLine matches the two lines of Chart.yaml that have a version of the program.
var versionLine = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// buildChart writes the Helm chart of this version, as "helm package" does.
func buildChart(_ context.Context, r *release) error {
	version := strings.TrimPrefix(r.version, "v")
	dir := filepath.Join(r.root, "deploy", "chart")
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if name == "Chart.yaml" {
			data = versionLine.ReplaceAllFunc(data, func(line []byte) []byte {
				if strings.HasPrefix(string(line), "appVersion") {
					return []byte("appVersion: " + r.imageTag())
				}
				return []byte("version: " + version)
			})
		}
		if name == "values.yaml" {
			data = bytes.ReplaceAll(data, []byte("repository: "+noRegistry+"/"), []byte("repository: "+r.registry+"/"))
		}
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	if err := r.removePrevious("*.tgz"); err != nil {
		return err
	}
	return r.writeArchive(filepath.Base(r.chartPath()), "dnsconfigurer", entries)
}

func (r *release) chartPath() string {
	return filepath.Join(r.out, "dnsconfigurer-"+strings.TrimPrefix(r.version, "v")+".tgz")
}
