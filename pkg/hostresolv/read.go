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
	read   []reading // the file at Config.Path and, if it is used, the uplink file
	stub   bool      // see Snapshot.Stub
	writer string    // of the uplink file, for messages
}

func (w *Watcher) observe() observation {
	kubelet, uplink := readFile(w.cfg.Path), ""
	o := observation{read: []reading{kubelet}, stub: isStub(kubelet, w.cfg.UplinkPath)}
	switch {
	case w.cfg.Uplink != UplinkAuto:
	case o.stub:
		o.writer, uplink = "systemd-resolved", w.cfg.UplinkPath
	case hasOnly(kubelet.file, isLoopback):
		o.stub, o.writer, uplink = true, "NetworkManager", w.cfg.NoStubPath
	}
	if uplink != "" {
		o.read = append(o.read, readFile(uplink))
	}
	return o
}

// names returns the paths to watch.
func (o observation) names() (names []string) {
	for _, r := range o.read {
		names = append(names, r.names...)
	}
	return names
}

// reading is the result of reading one file.
type reading struct {
	file   resolvconf.File
	digest [sha256.Size]byte // of the text; zero if the file could not be opened

	// names are the paths whose change can make the path resolve to another file: every
	// directory and link on the path, and the file, or the first one that is missing.
	// They are absolute, have no links before the last element, and are in the order in
	// which they are resolved.
	names []string
	end   string // the file without links; if a name is missing, as far as it can be resolved

	info   fs.FileInfo // nil if there is no file
	err    error       // of stat(2), if info is nil
	stable bool        // a later write changes the modification time
}

// mtimeGranularity is the coarsest modification time of a file system to expect. If a file
// was written within this time, another write may leave the same time.
const mtimeGranularity = time.Second

// readFile reads the file at path. If a link is replaced between resolving the path and
// opening the file, it starts again, so that the result is about one file. The links in
// /proc do not lead where they say (proc_pid_root(5)), so the number of attempts is limited;
// such a file is polled.
func readFile(path string) reading {
	const attempts = 50 // every second attempt fails while links are replaced all the time
	for attempt := 1; ; attempt++ {
		r := reading{file: resolvconf.File{Path: path}}
		r.names, r.end = resolveLinks(path)
		r.info, r.err = os.Stat(path) // before the read, so a write after it is detected
		r.stable = r.err == nil && time.Since(r.info.ModTime()) > mtimeGranularity
		f, err := openFile(path)
		if err != nil {
			r.file.Err = err
			return r
		}
		if attempt == attempts || isSameFile(f, r.end) {
			r.parse(f)
			f.Close()
			return r
		}
		f.Close()
	}
}

// unchanged reports whether the file is certainly the same as when it was read.
func (r reading) unchanged() bool {
	info, err := os.Stat(r.file.Path)
	if err != nil {
		return errorText(r.err) == err.Error()
	}
	return r.stable && os.SameFile(info, r.info) && info.Size() == r.info.Size() &&
		info.Mode() == r.info.Mode() && info.ModTime().Equal(r.info.ModTime())
}

func (r *reading) parse(f *os.File) {
	digest, path := sha256.New(), r.file.Path
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

// openFile opens a file. A named pipe is an error: opening and reading it may wait for ever
// for a writer.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a named pipe")}
	}
	return f, nil
}

// maxLinks is the number of links that Linux follows in one path (MAXSYMLINKS).
const maxLinks = 40

// resolveLinks resolves path element by element, like the kernel, for reading.names and
// reading.end. So it finds links to directories on the path too, and ".." leaves the directory
// to which a link leads. Kubernetes mounts the files of a ConfigMap behind such a link,
// "..data", and replaces it.
func resolveLinks(path string) (names []string, end string) {
	if !filepath.IsAbs(path) {
		if wd, err := os.Getwd(); err == nil {
			path = wd + "/" + path // not Join, which would remove ".."
		}
	}
	dir, rest := "/", path
	for links := 0; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		switch element {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		name := filepath.Join(dir, element)
		names = append(names, name)
		info, err := os.Lstat(name)
		if err != nil {
			return names, filepath.Join(name, rest)
		}
		if info.Mode().Type() != fs.ModeSymlink {
			dir = name
			continue
		}
		target, err := os.Readlink(name)
		if links++; links > maxLinks || err != nil {
			return names, name
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = target + "/" + rest
	}
	return names, dir
}
