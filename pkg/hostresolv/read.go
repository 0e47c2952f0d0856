// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// observation is the result of reading all files once.
type observation struct {
	kubelet reading  // Path
	stub    bool     // see Snapshot.Stub
	uplink  *reading // nil if it is not used
	writer  string   // of uplink, for messages
}

func (w *Watcher) observe() observation {
	o := observation{kubelet: readFile(w.cfg.Path)}
	o.stub = isStub(o.kubelet, w.cfg.UplinkPath)
	path := w.cfg.UplinkPath
	switch {
	case w.cfg.Uplink != UplinkAuto:
		return o
	case o.stub:
		o.writer = "systemd-resolved"
	case isLoopbackOnly(o.kubelet.file):
		o.stub, o.writer, path = true, "NetworkManager", w.cfg.NoStubPath
	default:
		return o
	}
	r := readFile(path)
	o.uplink = &r
	return o
}

func (o observation) states() []fileState {
	if o.uplink == nil {
		return []fileState{o.kubelet.state}
	}
	return []fileState{o.kubelet.state, o.uplink.state}
}

func (o observation) names() []string {
	if o.uplink == nil {
		return o.kubelet.path.names
	}
	return slices.Concat(o.kubelet.path.names, o.uplink.path.names)
}

// reading is the result of reading one file.
type reading struct {
	file   resolvconf.File
	digest [sha256.Size]byte // of the text; zero if the file could not be opened
	path   linkPath
	state  fileState
}

// readFile reads the file at path. If a link is replaced between resolving the path and
// opening the file, it starts again, so that the result is about one file. The links in
// /proc do not lead where they say (proc_pid_root(5)), so the number of attempts is limited;
// such a file is polled.
func readFile(path string) reading {
	const attempts = 50 // every second attempt fails while links are replaced all the time
	for attempt := 1; ; attempt++ {
		// The state is from before the read, so a write after it is detected.
		r := reading{file: resolvconf.File{Path: path}, path: resolveLinks(path), state: statFile(path)}
		f, err := openFile(path)
		if err != nil {
			r.file.Err = err
			return r
		}
		if attempt == attempts || isSameFile(f, r.path.end) {
			r.parse(f)
			f.Close()
			return r
		}
		f.Close()
	}
}

func (r *reading) parse(f *os.File) {
	digest := sha256.New()
	path := r.file.Path
	r.file = resolvconf.Read(io.TeeReader(f, digest))
	r.file.Path = path
	digest.Sum(r.digest[:0])

	// Snapshots share the lists, so appending to a list must copy it.
	r.file.Nameservers = slices.Clip(r.file.Nameservers)
	r.file.Searches = slices.Clip(r.file.Searches)
	r.file.Options = slices.Clip(r.file.Options)
	r.file.Ignored = slices.Clip(r.file.Ignored)
}

// isSameFile reports whether f is the file called name.
func isSameFile(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

var errPipe = errors.New("is a named pipe")

// openFile opens a file. A named pipe is an error: opening and reading it may wait for ever
// for a writer.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: errPipe}
	}
	return f, nil
}

// fileState is the result of stat(2) for a path. It detects whether the file has changed.
type fileState struct {
	path   string
	info   fs.FileInfo // nil if there is no file
	err    string      // the error of stat, if info is nil
	stable bool        // a later write changes the modification time
}

// mtimeGranularity is the coarsest modification time of a file system to expect. If a file
// was written within this time, another write may leave the same time.
const mtimeGranularity = time.Second

func statFile(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{path: path, err: err.Error()}
	}
	return fileState{path: path, info: info, stable: time.Since(info.ModTime()) > mtimeGranularity}
}

// unchanged reports whether the file is certainly the same as when s was made.
func (s fileState) unchanged() bool {
	info, err := os.Stat(s.path)
	if err != nil {
		return s.err == err.Error()
	}
	return s.stable && os.SameFile(info, s.info) && info.Size() == s.info.Size() &&
		info.Mode() == s.info.Mode() && info.ModTime().Equal(s.info.ModTime())
}

// maxLinks is the number of links that Linux follows in one path (MAXSYMLINKS).
const maxLinks = 40

// linkPath is a path with all its links resolved.
type linkPath struct {
	// names are the paths whose change can make the path resolve to another file: every
	// directory and link on the path, and the file, or the first one that is missing.
	// They are absolute, have no links before the last element, and are in the order in
	// which they are resolved.
	names []string
	end   string // the file; if a name is missing, the file as far as it can be resolved
}

// resolveLinks resolves path element by element, like the kernel. So it finds links to
// directories on the path too, and ".." leaves the directory to which a link leads.
// Kubernetes mounts the files of a ConfigMap behind such a link, "..data", and replaces it.
func resolveLinks(path string) linkPath {
	const slash = string(filepath.Separator)
	if !filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			path = wd + slash + path // not Join, which would remove ".."
		}
	}
	var p linkPath
	dir, rest := splitRoot(path)
	for links := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, slash)
		switch element {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		name := filepath.Join(dir, element)
		p.names = append(p.names, name)
		info, err := os.Lstat(name)
		if err != nil {
			p.end = filepath.Join(name, rest)
			return p
		}
		if info.Mode().Type() != fs.ModeSymlink {
			dir = name
			continue
		}
		target, err := os.Readlink(name)
		if links++; links > maxLinks || err != nil {
			p.end = name
			return p
		}
		if filepath.IsAbs(target) {
			dir, target = splitRoot(target)
		}
		rest = target + slash + rest
	}
	p.end = dir
	return p
}

// splitRoot splits an absolute path into its root directory and the rest.
func splitRoot(path string) (root, rest string) {
	volume := filepath.VolumeName(path) // "" except on Windows
	return volume + string(filepath.Separator), path[len(volume):]
}
