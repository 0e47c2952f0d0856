// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const cgroups = "/sys/fs/cgroup"

// MakeCgroup creates the root cgroup of a kubelet, such as "/test", which must exist with
// all controllers.
func MakeCgroup(name string) error {
	trees := []string{cgroups}
	if controllers, err := os.ReadFile(cgroups + "/cgroup.controllers"); err == nil {
		for _, c := range strings.Fields(string(controllers)) {
			_ = os.WriteFile(cgroups+"/cgroup.subtree_control", []byte("+"+c), 0) // as runc does; the kubelet reports missing controllers
		}
	} else { // version 1: a tree for each controller
		trees, _ = filepath.Glob(cgroups + "/*")
	}
	for _, tree := range trees {
		if err := os.MkdirAll(tree+name, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// RemoveCgroup removes a cgroup, children first. It repeats that while the kernel still
// removes processes, for two minutes.
func RemoveCgroup(name string) error {
	one, _ := filepath.Glob(cgroups + "/*" + name) // version 1
	deadline := time.Now().Add(2 * time.Minute)
	for _, top := range append(one, cgroups+name) {
		for err := removeTree(top); err != nil; err = removeTree(top) {
			if time.Now().After(deadline) {
				return fmt.Errorf("removing the cgroup %s: %w", top, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
