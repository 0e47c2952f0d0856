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
	watcher kube.Watcher

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
	d.watcher = kube.Watcher{
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
	failed, all, changed := map[string]error{}, map[string]contents{}, false
	var manifests []Manifest
	for _, path := range d.cfg.Paths {
		if files, err := kube.ListManifests(path); err != nil {
			failed[path] = err
		} else {
			_, known := d.files[path]
			changed = changed || !known
			d.files[path] = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(filepath.Base(file), ".") })
		}
		for _, file := range d.files[path] {
			c, err := readContents(file, d.contents[file])
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since the directory was read
				failed[file] = err
			}
			all[file] = c
			manifests = append(manifests, c.manifest)
		}
	}
	same := func(a, b contents) bool { return a.digest == b.digest }
	changed, d.contents = changed || !maps.EqualFunc(all, d.contents, same), all
	if changed && len(d.files) == len(d.cfg.Paths) {
		d.load(manifests)
	}
	return failed
}

// load replaces the objects of the zone.
func (d *Directories) load(manifests []Manifest) {
	if err := LoadZone(d.cfg.Zone, d.cfg.Domain, manifests...); err != nil {
		d.cfg.Logger.Warn("invalid objects in manifests, leaving them out", "error", err)
	}
	d.cfg.Logger.Info("read manifests", "directories", len(d.cfg.Paths), "files", len(manifests))
}

// readContents returns the contents of a file, and those before if it is unreadable or invalid.
func readContents(file string, before contents) (contents, error) {
	text, err := atomicfile.ReadRegular(file, kube.MaxManifest)
	if err != nil {
		return before, err
	}
	digest := sha256.Sum256(text)
	if digest == before.digest {
		return before, nil
	}
	m, err := ParseManifest(file, text)
	if err != nil {
		return before, err
	}
	return contents{digest, m}, nil
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
