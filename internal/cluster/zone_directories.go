// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// DirectoriesConfig configures a [Directories].
type DirectoriesConfig struct {
	// Zone is the zone to fill. It must have no other writer. Required.
	Zone *zone.Zone

	// Domain is the zone's domain. Required.
	Domain fqdn.Name

	// Paths are the directories. Of two objects with the same name the one in the later
	// directory wins, and within a directory the one in the later file, by name. Required.
	Paths []string

	// Logger receives changes and read errors. nil: no log.
	Logger *slog.Logger
}

// Directories keeps a zone in sync with the manifests in directories: in their .yaml, .yml
// and .json files whose names do not begin with a dot, without subdirectories. The zone is
// loaded when each directory has been read once.
type Directories struct {
	cfg     DirectoriesConfig
	watcher manifest.Watcher

	// As last read without error.
	files    map[string][]string // the paths of the files, by directory
	contents map[string]contents // by file
}

// contents are the contents of a valid file.
type contents struct {
	digest   [sha256.Size]byte
	manifest Manifest
}

// NewDirectories returns a Directories, which reads no file before Run. It returns an error
// that joins those of all paths if one of them is not a readable directory: the zone would
// not be loaded until it is one. A directory that becomes unreadable later keeps its
// objects.
func NewDirectories(cfg DirectoriesConfig) (*Directories, error) {
	var problems []error
	for _, path := range cfg.Paths {
		if err := checkDirectory(path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Directories{cfg: cfg, files: map[string][]string{}, contents: map[string]contents{}}
	d.watcher = manifest.Watcher{
		Directories: cfg.Paths, Read: d.read,
		Logger: cfg.Logger, Message: "cannot read manifests, keeping their previous names, if any",
	}
	return d, nil
}

// Run reads the directories now and whenever they change, until ctx is done, and then
// returns nil. It must be called once.
func (d *Directories) Run(ctx context.Context) error {
	d.watcher.Run(ctx)
	return nil
}

// read updates the zone from the directories, and returns the errors by path. Directories
// and files that are unreadable or invalid keep their previous contents.
func (d *Directories) read() map[string]error {
	failed := map[string]error{}
	changed := d.readDirectories(failed)
	all := slices.Concat(slices.Collect(maps.Values(d.files))...)
	changed = d.readFiles(all, failed) || changed
	if changed && len(d.files) == len(d.cfg.Paths) {
		if err := LoadZone(d.cfg.Zone, d.cfg.Domain, d.manifests()...); err != nil {
			d.cfg.Logger.Warn("invalid objects in manifests, leaving them out", "error", err)
		}
		d.cfg.Logger.Info("read manifests", "directories", len(d.cfg.Paths), "files", len(all))
	}
	return failed
}

// readDirectories lists the files of the directories, and reports whether there are other
// ones.
func (d *Directories) readDirectories(failed map[string]error) (changed bool) {
	for _, path := range d.cfg.Paths {
		files, err := manifest.List(path)
		if err != nil {
			failed[path] = err
			continue
		}
		files = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(filepath.Base(file), ".") })
		before, known := d.files[path]
		changed = changed || !known || !slices.Equal(before, files)
		d.files[path] = files
	}
	return changed
}

// readFiles reads the files, and reports whether one of them has new, valid contents.
func (d *Directories) readFiles(files []string, failed map[string]error) (changed bool) {
	maps.DeleteFunc(d.contents, func(file string, _ contents) bool { return !slices.Contains(files, file) })
	for _, file := range files {
		updated, err := d.readFile(file)
		changed = changed || updated
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since the directory was read
			failed[file] = err
		}
	}
	return changed
}

// manifests returns the manifests of all files, in their order.
func (d *Directories) manifests() []Manifest {
	var list []Manifest
	for _, path := range d.cfg.Paths {
		for _, file := range d.files[path] {
			list = append(list, d.contents[file].manifest)
		}
	}
	return list
}

// checkDirectory returns an error unless path is a readable directory.
func checkDirectory(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such directory; give a directory")
	case err == nil && !info.IsDir():
		return errors.New("not a directory; give a directory")
	case err == nil:
		_, err = os.ReadDir(path)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the caller adds the path
	}
	return err
}

// readFile reports whether the file has new, valid contents.
func (d *Directories) readFile(file string) (updated bool, err error) {
	text, err := atomicfile.ReadRegular(file, kube.MaxManifest)
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(text)
	if before, known := d.contents[file]; known && before.digest == digest {
		return false, nil
	}
	m, err := ParseManifest(file, text)
	if err != nil {
		return false, err
	}
	d.contents[file] = contents{digest, m}
	return true, nil
}
