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
