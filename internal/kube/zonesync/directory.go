// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const (
	// settleTime is how long a changed directory may go on changing before it is
	// read, so that a file is rarely seen half written.
	settleTime = 50 * time.Millisecond

	// rereadPeriod is for what inotify does not tell: a directory that comes later, a
	// file behind a link.
	rereadPeriod = 20 * time.Second
)

// DirectoriesConfig is what a [Directories] works with.
type DirectoriesConfig struct {
	// Zone is filled. Nobody else writes it. Required.
	Zone *zone.Zone

	// Domain is the zone's. Required.
	Domain fqdn.Name

	// Paths are the directories. Of two objects with the same name the one in the
	// later directory counts, and in one directory that in the later file, by name.
	// Required.
	Paths []string

	// Logger hears of changes and of what cannot be read. nil: nobody does.
	Logger *slog.Logger
}

// Directories fills a zone with the manifests in directories: in their .yaml, .yml and
// .json files, not deeper, whose names do not begin with a dot. The zone is loaded
// when each directory has been read once.
type Directories struct {
	cfg     DirectoriesConfig
	watcher *fsnotify.Watcher // nil: none

	// By path, as last read with success.
	listed map[string][]string // the files of a directory
	files  map[string]contents

	complaints map[string]string // by path: what was logged last
}

// contents are those of a file that is right.
type contents struct {
	digest   [sha256.Size]byte
	manifest Manifest
}

// NewDirectories returns a Directories that reads no file until it runs. A path where no
// directory can be read is an error now, for the zone would not be loaded as long as that
// is so; one that is lost later keeps what it had. The error joins those of all paths.
func NewDirectories(cfg DirectoriesConfig) (*Directories, error) {
	switch {
	case cfg.Zone == nil:
		return nil, errors.New("filling the zone from manifests: the zone is missing")
	case cfg.Domain == "":
		return nil, errors.New("filling the zone from manifests: the cluster's domain is missing")
	case len(cfg.Paths) == 0:
		return nil, errors.New("filling the zone from manifests: no directory")
	}
	var problems []error
	for _, path := range cfg.Paths {
		if err := checkDirectory(path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Directories{cfg: cfg, listed: map[string][]string{}, files: map[string]contents{}, complaints: map[string]string{}}, nil
}

// Run reads the directories, now and whenever they change, until ctx ends, and returns
// nil then. It is called once.
func (d *Directories) Run(ctx context.Context) error {
	var events chan fsnotify.Event
	var failures chan error
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		d.watcher, events, failures = w, w.Events, w.Errors
	} else {
		d.cfg.Logger.Warn("manifests are not watched", "reread", rereadPeriod, "error", err)
	}
	d.read()
	period := time.NewTicker(rereadPeriod)
	defer period.Stop()
	var settled <-chan time.Time // nil: nothing has changed
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
		case <-failures: // an overflow: something has changed
		case <-period.C:
			d.read()
			continue
		case <-settled:
			settled = nil
			d.read()
			continue
		}
		if settled == nil {
			settled = time.After(settleTime)
		}
	}
}

// read brings the zone to what the directories hold. What cannot be read, or is wrong,
// stays as it was.
func (d *Directories) read() {
	complaints := map[string]string{}
	changed := false
	for _, path := range d.cfg.Paths {
		if d.watcher != nil { // before reading, and each time: the directory may be a new one
			if err := d.watcher.Add(path); err != nil {
				complaints[path] = fmt.Sprintf("watching: %v", err)
			}
		}
		files, err := manifestFiles(path)
		if err != nil {
			complaints[path] = err.Error()
			continue
		}
		was, known := d.listed[path]
		changed = changed || !known || !slices.Equal(was, files)
		d.listed[path] = files
	}
	all := slices.Concat(slices.Collect(maps.Values(d.listed))...)
	maps.DeleteFunc(d.files, func(file string, _ contents) bool { return !slices.Contains(all, file) })
	for _, file := range all {
		renewed, err := d.readFile(file)
		changed = changed || renewed
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone since
			complaints[file] = err.Error()
		}
	}
	if changed && len(d.listed) == len(d.cfg.Paths) {
		if err := Load(d.cfg.Zone, d.cfg.Domain, d.manifests()...); err != nil {
			d.cfg.Logger.Warn("manifests name what cannot have names", "error", err)
		}
		d.cfg.Logger.Info("read manifests", "directories", len(d.cfg.Paths), "files", len(all))
	}
	for path, complaint := range complaints {
		if d.complaints[path] != complaint {
			d.cfg.Logger.Warn("trouble with manifests, what they said before counts", "path", path, "error", complaint)
		}
	}
	d.complaints = complaints
}

// manifests are what counts of all files, in their order.
func (d *Directories) manifests() []Manifest {
	var list []Manifest
	for _, path := range d.cfg.Paths {
		for _, file := range d.listed[path] {
			list = append(list, d.files[file].manifest)
		}
	}
	return list
}

// manifestFiles returns the paths of the files in a directory, by name.
func manifestFiles(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(directory, e.Name()))
		}
	}
	return files, nil
}

// checkDirectory checks that there is a directory that can be read.
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
		err = e.Err // the caller says where
	}
	return err
}

// readFile reports whether the file says something new that is right.
func (d *Directories) readFile(file string) (renewed bool, err error) {
	text, err := readRegular(file)
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(text)
	if was, known := d.files[file]; known && was.digest == digest {
		return false, nil
	}
	m, err := ParseManifest(file, text)
	if err != nil {
		return false, err
	}
	d.files[file] = contents{digest, m}
	return true, nil
}

// readRegular reads a regular file, or one behind a link. Others may never end.
func readRegular(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, kube.MaxManifest+1)) // one more: the parser complains
}
