// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// observation is what one look at the files found.
type observation struct {
	asked  reading  // Path
	stub   bool     // asked is the stub of systemd-resolved
	uplink *reading // nil if it is not to be read
}

func (w *Watcher) observe() observation {
	o := observation{asked: read(w.cfg.Path)}
	o.stub = isStub(o.asked, w.cfg.UplinkPath)
	if o.stub && w.cfg.Uplink == UplinkAuto {
		r := read(w.cfg.UplinkPath)
		o.uplink = &r
	}
	return o
}

func (o observation) stamps() []stamp {
	if o.uplink == nil {
		return []stamp{o.asked.stamp}
	}
	return []stamp{o.asked.stamp, o.uplink.stamp}
}

func (o observation) names() []string {
	if o.uplink == nil {
		return o.asked.way.names
	}
	return slices.Concat(o.asked.way.names, o.uplink.way.names)
}

// reading is a file that was read.
type reading struct {
	file   resolvconf.File
	digest [sha256.Size]byte // of the text; zero if it was not opened
	way    way
	stamp  stamp
}

// read reads path. If a link is swapped between finding the way and opening the file,
// it begins again: a reading is of the file at the end of its way. The links in /proc
// do not lead where they say (proc_pid_root(5)); so it gives up at some time, and such
// a file is polled.
func read(path string) reading {
	const attempts = 50 // in a storm of swaps each second one may fail
	for attempt := 1; ; attempt++ {
		r := reading{file: resolvconf.File{Path: path}, way: follow(path), stamp: takeStamp(path)} // before it is read: what is written from now on will show
		f, err := open(path)
		if err != nil {
			r.file.Err = err
			return r
		}
		if attempt == attempts || isAt(f, r.way.end) {
			r.read(f)
			f.Close()
			return r
		}
		f.Close()
	}
}

func (r *reading) read(f *os.File) {
	digest := sha256.New()
	path := r.file.Path
	r.file = resolvconf.Read(io.TeeReader(f, digest))
	r.file.Path = path
	digest.Sum(r.digest[:0])

	// The lists are shared: an append to one must not write behind its end.
	r.file.Nameservers = slices.Clip(r.file.Nameservers)
	r.file.Searches = slices.Clip(r.file.Searches)
	r.file.Options = slices.Clip(r.file.Options)
	r.file.Ignored = slices.Clip(r.file.Ignored)
}

// isAt tells whether f is the file called name.
func isAt(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

var errPipe = errors.New("is a named pipe")

// open opens a file, but not a pipe: to open one, and to read it, may wait for ever
// for somebody to write.
func open(path string) (*os.File, error) {
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

// stamp is what stat(2) says about a path, as far as it tells one text from another.
type stamp struct {
	path    string
	info    fs.FileInfo // nil if there is none
	err     string      // then why
	settled bool        // a later write will show
}

// grain is the coarsest clock of a file system that is worth thinking of. A file
// that was written so short a time ago can be written again and look the same.
const grain = time.Second

func takeStamp(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{path: path, err: err.Error()}
	}
	return stamp{path: path, info: info, settled: time.Since(info.ModTime()) > grain}
}

// holds tells whether a file is surely the one that was stamped.
func (s stamp) holds() bool {
	info, err := os.Stat(s.path)
	if err != nil {
		return s.err == err.Error()
	}
	return s.settled && os.SameFile(info, s.info) && info.Size() == s.info.Size() &&
		info.Mode() == s.info.Mode() && info.ModTime().Equal(s.info.ModTime())
}
