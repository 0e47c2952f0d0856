// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A release is the version that is being built.
type release struct {
	root     string // directory of the repository
	out      string // directory of the results
	registry string // of image and chart, such as ghcr.io/owner
	version  string // of the module, such as v0.2.0
	revision string // commit
	time     time.Time
	binaries []binary
	host     string // path of a binary that runs on this machine
	digest   string // of the image, after buildImage
}

// A binary is the program for one platform.
type binary struct {
	os, arch string
	path     string
	info     *buildinfo.BuildInfo
}

// newRelease builds the program for each platform and for this machine.
func newRelease(ctx context.Context, root, out, registry string, platforms []string) (*release, error) {
	if err := os.MkdirAll(filepath.Join(out, "binaries"), 0o755); err != nil {
		return nil, err
	}
	r := &release{root: root, out: out, registry: registry}
	var err error
	if r.time, err = commitTime(ctx, root); err != nil {
		return nil, err
	}
	all := platforms
	if !slices.Contains(all, hostPlatform()) {
		all = append(slices.Clone(all), hostPlatform())
	}
	for _, platform := range all {
		b, err := compile(ctx, root, filepath.Join(out, "binaries"), platform)
		if err != nil {
			return nil, err
		}
		if platform == hostPlatform() {
			r.host = b.path
		}
		if slices.Contains(platforms, platform) {
			r.binaries = append(r.binaries, b)
		}
	}
	if len(r.binaries) == 0 {
		return nil, fmt.Errorf("no platform to build for in %q", platforms)
	}
	r.version, r.revision, err = stampedVersion(r.binaries[0].info)
	return r, err
}

// compile builds the program for a platform, such as linux/amd64. The flags are those of
// "make build", and -buildvcs, which the environment may have switched off.
func compile(ctx context.Context, root, dir, platform string) (b binary, err error) {
	var found bool
	if b.os, b.arch, found = strings.Cut(platform, "/"); !found {
		return b, fmt.Errorf("platform %q: want OS/ARCH, such as linux/amd64", platform)
	}
	if b.path, err = filepath.Abs(filepath.Join(dir, "dnsconfigurer-"+b.os+"-"+b.arch)); err != nil {
		return b, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=true", "-trimpath",
		"-ldflags=-s -w", "-o", b.path, "./cmd/dnsconfigurer")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.os, "GOARCH="+b.arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("building for %s: %w", platform, err)
	}
	b.info, err = buildinfo.ReadFile(b.path)
	return b, err
}

// stampedVersion returns the version and the commit that Go has stamped into a binary.
func stampedVersion(info *buildinfo.BuildInfo) (version, revision string, err error) {
	version = info.Main.Version
	if version == "" || version == "(devel)" {
		return "", "", errors.New("the binary has no version: build in a git clone, with git " +
			"installed; Go finds no version in a linked worktree")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision, nil
}

// commitTime returns the time of the commit that is checked out.
func commitTime(ctx context.Context, root string) (time.Time, error) {
	cmd := exec.CommandContext(ctx, "git", "show", "-s", "--format=%ct", "HEAD")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the time of the commit: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}
