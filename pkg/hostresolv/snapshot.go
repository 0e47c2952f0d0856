// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Snapshot is the host's resolv.conf at one instant. It is immutable; all copies share the
// lists of its files.
type Snapshot struct {
	// File is the last good file, which is the one for pods: the kubelet reads it without
	// an error and it has a nameserver. Until there is a good file, it is the current
	// file, with its Err.
	File resolvconf.File

	// Kubelet is the file that the kubelet gives to pods: the file at Path, even if it is
	// a stub or has no nameserver. The kubelet starts no pod with a file that it refuses,
	// so Kubelet is the last file that it accepts. Until there is one, it is the current
	// file, with its Err.
	Kubelet resolvconf.File

	Path string // Config.Path

	// Stub reports whether the file at Path is the stub file of systemd-resolved, or names
	// the addresses of the stub only. With Config.Uplink also whether all its servers are on the
	// loopback.
	Stub bool

	// Uplink reports whether File is the uplink file of systemd-resolved or NetworkManager.
	Uplink bool

	// Problem is the reason why the current file is not used; nil if it is. Until there is a good
	// file, it is the problem of File.
	Problem error
}

var errNoNameserver = errors.New("the file has no nameserver")

// checkUsable returns the reason why f must not replace a good file, or nil.
func checkUsable(f resolvconf.File) error {
	if f.Err == nil && len(f.Nameservers) == 0 {
		return errNoNameserver
	}
	return f.Err
}

// next returns the snapshot that follows s for the observation o. Its File is the first of:
//
//  1. the uplink file, if it is used and is good
//  2. the uplink file of s, if it is used: the stub does not replace it
//  3. the file at Path, if it is good
//  4. the last good file
//  5. the file at Path
func (s Snapshot) next(o observation) Snapshot {
	next, kubelet, useUplink := s, o.read[0].file, len(o.read) > 1
	if kubelet.Err == nil || s.Kubelet.Err != nil || s.Kubelet.Path == "" {
		next.Kubelet = kubelet
	}
	problem, uplinkProblem := checkUsable(kubelet), error(nil)
	if useUplink {
		uplinkProblem = checkUsable(o.read[1].file)
	}
	switch {
	case useUplink && uplinkProblem == nil: // 1
		next.File, next.Stub, next.Uplink, problem = o.read[1].file, true, true, nil
	case useUplink && s.Uplink: // 2
	case problem == nil, checkUsable(s.File) != nil: // 3, 5
		next.File, next.Stub, next.Uplink = kubelet, o.stub, false
	} // else 4
	if problem == nil && uplinkProblem != nil {
		problem = fmt.Errorf("uplink file of %s: %w", o.writer, uplinkProblem)
	}
	next.Problem = problem
	return next
}

// errorText returns the text of err, or "".
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// stubFile is the file that makes a host use the stub resolver of systemd-resolved. It is in
// the directory of the uplink file (systemd-resolved.service(8), "/etc/resolv.conf").
const stubFile = "stub-resolv.conf"

// isStub reports whether r is the stub file of systemd-resolved, or a file that names the
// stub's addresses only. With another nameserver in it, a file is usable without the stub.
func isStub(r reading, uplinkPath string) bool {
	if r.info == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(uplinkPath), stubFile))
	return err == nil && os.SameFile(info, r.info) || hasOnly(r.file, func(nameserver string) bool {
		return nameserver == "127.0.0.53" || nameserver == "127.0.0.54" // the second is for proxies (DNSStubListener=)
	})
}

// hasOnly reports whether f has nameservers, and match reports true for all of them.
func hasOnly(f resolvconf.File, match func(nameserver string) bool) bool {
	return len(f.Nameservers) > 0 && !slices.ContainsFunc(f.Nameservers, func(e resolvconf.Entry) bool { return !match(e.Text) })
}

// isLoopback reports whether nameserver is an address of the local host. Linux also sends
// packets for the unspecified address to itself.
func isLoopback(nameserver string) bool {
	a, err := netip.ParseAddr(nameserver)
	a = a.Unmap()
	return err == nil && (a.IsLoopback() || a.IsUnspecified())
}

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
	case !w.cfg.Uplink:
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

// equal reports whether other has the same contents and errors.
func (o observation) equal(other observation) bool {
	return slices.EqualFunc(o.read, other.read, func(a, b reading) bool { return reflect.DeepEqual(a.file, b.file) })
}

// reading is the result of reading one file.
type reading struct {
	file   resolvconf.File
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
	r.file = resolvconf.Read(f)
	r.file.Path = path

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
