// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// codeBlocks returns the indented blocks of a page, without their indentation.
func codeBlocks(page string) (blocks []string) {
	var block strings.Builder
	indent := 0
	for line := range strings.Lines(page + "\n.\n") {
		depth := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case strings.TrimSpace(line) == "":
			if block.Len() > 0 {
				block.WriteString("\n")
			}
		case block.Len() == 0 && depth >= 4:
			indent = depth
			block.WriteString(line[indent:])
		case block.Len() > 0 && depth >= indent:
			block.WriteString(line[indent:])
		case block.Len() > 0:
			blocks = append(blocks, block.String())
			block.Reset()
		}
	}
	return blocks
}

// asConfiguration returns the configuration files that a YAML text can be. A text without a kind
// can be a part of each kind that has all of its fields.
func asConfiguration(t *testing.T, text string) (files []string) {
	t.Helper()
	var fields map[string]any
	if yaml.Unmarshal([]byte(text), &fields) != nil || len(fields) == 0 {
		return nil
	}
	if kind, found := fields["kind"].(string); found {
		if kind == "KubeletConfiguration" || slices.Contains(v1alpha1.Kinds(), kind) {
			files = append(files, text)
		}
		return files
	}
	for _, kind := range v1alpha1.Kinds() {
		defaults, err := v1alpha1.Defaults(kind)
		if err != nil {
			t.Fatal(err)
		}
		known := true
		for field := range fields {
			known = known && (bytes.Contains(defaults, []byte("\n"+field+":")) || bytes.Contains(defaults, []byte("\n# "+field+":")))
		}
		if known {
			files = append(files, "apiVersion: "+v1alpha1.GroupVersion+"\nkind: "+kind+"\n"+text)
		}
	}
	return files
}

// checkConfigurations checks the configuration that text can be, and reports whether it is one.
func checkConfigurations(t *testing.T, name, text string) bool {
	t.Helper()
	files := asConfiguration(t, text)
	var stderr bytes.Buffer
	for _, file := range files {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if run(t.Context(), []string{"config", "check", "--no-files", path}, nil, &stderr, &stderr) == exitOK {
			return true
		}
	}
	if len(files) > 0 {
		t.Errorf("%s: %s\n%s", name, &stderr, text)
	}
	return len(files) > 0
}

// TestDocumentation_Configurations checks the configuration files in the examples and on the
// pages of the documentation, also those that are shown in part.
func TestDocumentation_Configurations(t *testing.T) {
	t.Chdir("../..")
	examples, pages := 0, 0
	for _, dir := range []string{"examples", "docs", "deploy/systemd", "README.md"} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			switch filepath.Ext(path) {
			case ".yaml":
				if bytes.Contains(text, []byte("Configuration\n")) && checkConfigurations(t, path, string(text)) {
					examples++
				}
			case ".md":
				for _, block := range codeBlocks(string(text)) {
					if checkConfigurations(t, path, block) {
						pages++
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if examples < 3 || pages < 1 {
		t.Errorf("%d examples and %d blocks of pages checked", examples, pages)
	}
}
