// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

const usage = "usage: release [-out DIR] [-registry HOST/PATH] [-platforms OS/ARCH,..] image|chart|manifests|packages|all|publish"

// noRegistry is the registry of images that are not published: a reserved name (RFC 2606), so that no node pulls another
// image.
const noRegistry = "registry.example"

// allPlatforms are the platforms of the archives. Those of Linux are the ones of the image
// and of the packages.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

// builders are the steps of what can be built.
var builders = map[string][]func(context.Context, *release) error{
	"image":     {buildImage, writeChecksums},
	"chart":     {buildChart, writeChecksums},
	"manifests": {buildImage, buildChart, buildManifests, writeChecksums},
	"packages":  {buildPackages, writeChecksums},
	"publish":   {publishImage, publishChart}, // after all
	"all":       {buildImage, buildChart, buildManifests, buildPackages, buildArchives, buildPlugin, writeChecksums},
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "../bin/release", "`DIR` for the results")
	registry := flags.String("registry", noRegistry, "`HOST/PATH` of image and chart, without their names")
	platforms := flags.String("platforms", allPlatforms, "comma-separated `OS/ARCH` to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New(usage)
	}
	steps, known := builders[flags.Arg(0)]
	if !known {
		return fmt.Errorf("%q: %s", flags.Arg(0), usage)
	}
	wanted := strings.Split(*platforms, ",")
	if flags.Arg(0) != "all" {
		wanted = slices.DeleteFunc(wanted, func(p string) bool { return !strings.HasPrefix(p, "linux/") })
	}
	r, err := newRelease(ctx, "..", *out, *registry, wanted)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// hostPlatform is the platform whose binary can be run to print its own help.
func hostPlatform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// removePrevious removes the files that match patterns: those of another version would be among the
// results, and match the patterns of commands in the documentation.
func (r *release) removePrevious(patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(r.out, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// write creates a file of the release, and prints its name and size.
func (r *release) write(name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), data, 0o644); err != nil {
		return err
	}
	fmt.Printf("%9d %s\n", len(data), name)
	return nil
}
