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

// unchanged reports whether the files are certainly the same as when they were read.
func (o observation) unchanged() bool {
	return !slices.ContainsFunc(o.read, func(r reading) bool { return !r.unchanged() })
}

// equal reports whether other has the same texts and errors.
func (o observation) equal(other observation) bool {
	return slices.EqualFunc(o.read, other.read, func(a, b reading) bool {
		return a.file.Path == b.file.Path && a.digest == b.digest && errorText(a.file.Err) == errorText(b.file.Err)
	})
}

// reading is the result of reading one file.
type reading struct {
	file   resolvconf.File
	digest [sha256.Size]byte // of the text; zero if the file could not be opened

	info   fs.FileInfo // nil if there is no file
	err    error       // of stat(2), if info is nil
	stable bool        // a later write changes the modification time
}

// mtimeGranularity is the coarsest modification time of a file system to expect. If a file
// was written within this time, another write may leave the same time.
const mtimeGranularity = time.Second

func readFile(path string) reading {
	r := reading{file: resolvconf.File{Path: path}}
	r.info, r.err = os.Stat(path) // before the read, so a write after it is detected
	r.stable = r.err == nil && time.Since(r.info.ModTime()) > mtimeGranularity
	f, err := openFile(path)
	if err != nil {
		r.file.Err = err
		return r
	}
	defer f.Close()
	digest := sha256.New()
	r.file = resolvconf.Read(io.TeeReader(f, digest))
	r.file.Path = path
	digest.Sum(r.digest[:0])

	// Snapshots share the lists, so appending to a list must copy it.
	r.file.Nameservers = slices.Clip(r.file.Nameservers)
	r.file.Searches = slices.Clip(r.file.Searches)
	r.file.Options = slices.Clip(r.file.Options)
	r.file.Ignored = slices.Clip(r.file.Ignored)
	return r
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
