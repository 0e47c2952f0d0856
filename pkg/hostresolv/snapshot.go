// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
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

	Path   string            // Config.Path
	Digest [sha256.Size]byte // SHA-256 of the text of File; zero if it could not be opened
	Since  time.Time         // when this text was first read from File.Path

	// Stub reports whether the file at Path is the stub file of systemd-resolved, or names
	// the addresses of the stub only. With UplinkAuto also whether all its servers are on the
	// loopback.
	Stub bool

	// Uplink reports whether File is the uplink file of systemd-resolved or NetworkManager.
	Uplink bool

	// Problem is the reason why the current file is not used; the zero value if it is.
	// Until there is a good file, it is the problem of File.
	Problem Problem
}

// Problem is a reason not to use a file.
type Problem struct {
	Err   error     // nil: no problem
	Since time.Time // when the first of consecutive problems was found
}

// Loopback returns the nameservers of File on the loopback of the node. Pods cannot reach
// them, and a DNS server on this node would forward queries to itself.
func (s Snapshot) Loopback() []string {
	var list []string
	for _, e := range s.File.Nameservers {
		if isLoopback(e.Text) {
			list = append(list, e.Text)
		}
	}
	return list
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
func (s Snapshot) next(o observation, now time.Time) Snapshot {
	next, kubelet, useUplink := s, o.read[0], len(o.read) > 1
	if kubelet.file.Err == nil || s.Kubelet.Err != nil || s.Since.IsZero() {
		next.Kubelet = kubelet.file
	}
	problem, uplinkProblem := checkUsable(kubelet.file), error(nil)
	if useUplink {
		uplinkProblem = checkUsable(o.read[1].file)
	}
	switch {
	case useUplink && uplinkProblem == nil: // 1
		next.setFile(o.read[1], now)
		next.Stub, next.Uplink, problem = true, true, nil
	case useUplink && s.Uplink: // 2
	case problem == nil, checkUsable(s.File) != nil: // 3, 5
		next.setFile(kubelet, now)
		next.Stub, next.Uplink = o.stub, false
	} // else 4
	if problem == nil && uplinkProblem != nil {
		problem = fmt.Errorf("uplink file of %s: %w", o.writer, uplinkProblem)
	}
	switch next.Problem.Err = problem; {
	case problem == nil:
		next.Problem.Since = time.Time{}
	case s.Problem.Err == nil:
		next.Problem.Since = now
	}
	return next
}

// setFile makes r the File of s.
func (s *Snapshot) setFile(r reading, now time.Time) {
	if s.Since.IsZero() || s.Digest != r.digest || s.File.Path != r.file.Path {
		s.Since = now
	}
	s.File, s.Digest = r.file, r.digest
}

// errorText returns the text of err, or "". Errors are compared by it, because every read
// returns new ones.
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
