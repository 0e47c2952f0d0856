// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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
	Source string            // path of File, absolute and without links
	Digest [sha256.Size]byte // SHA-256 of the text of File; zero if it could not be opened
	Since  time.Time         // when this text was first read from Source

	// Stub reports whether the file at Path is the stub file of systemd-resolved, or names
	// the addresses of the stub only. With UplinkAuto also whether all its servers are on the
	// loopback.
	Stub bool

	// Uplink reports whether File is the uplink file of systemd-resolved or NetworkManager.
	Uplink bool

	// Problem is the reason why the current file is not used; the zero value if it is.
	// Until there is a good file, it is the problem of File.
	Problem Problem

	kubeletDigest [sha256.Size]byte // SHA-256 of the text of Kubelet
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
	next, useUplink := s, o.uplink != nil
	if o.kubelet.file.Err == nil || s.Kubelet.Err != nil || s.Since.IsZero() {
		next.Kubelet, next.kubeletDigest = o.kubelet.file, o.kubelet.digest
	}
	problem, uplinkProblem := checkUsable(o.kubelet.file), error(nil)
	if useUplink {
		uplinkProblem = checkUsable(o.uplink.file)
	}
	switch {
	case useUplink && uplinkProblem == nil: // 1
		next.setFile(*o.uplink, now)
		next.Stub, next.Uplink, problem = true, true, nil
	case useUplink && s.Uplink: // 2
	case problem == nil, checkUsable(s.File) != nil: // 3, 5
		next.setFile(o.kubelet, now)
		next.Stub, next.Uplink = o.stub, false
	} // else 4
	if problem == nil && uplinkProblem != nil {
		problem = fmt.Errorf("uplink file of %s: %w", o.writer, uplinkProblem)
	}
	next.Problem = s.Problem.next(problem, now)
	return next
}

// next returns the problem that follows p if the files have the problem err.
func (p Problem) next(err error, now time.Time) Problem {
	switch {
	case err == nil:
		return Problem{}
	case p.Err == nil:
		return Problem{err, now}
	default:
		return Problem{err, p.Since}
	}
}

// setFile makes r the File of s.
func (s *Snapshot) setFile(r reading, now time.Time) {
	if s.Since.IsZero() || s.Digest != r.digest || s.Source != r.path.end {
		s.Since = now
	}
	s.File, s.Digest, s.Source = r.file, r.digest, r.path.end
}

// equal reports whether s and t are the same for a reader.
func (s Snapshot) equal(t Snapshot) bool {
	return s.Digest == t.Digest && errorText(s.File.Err) == errorText(t.File.Err) && s.Source == t.Source &&
		s.kubeletDigest == t.kubeletDigest && errorText(s.Kubelet.Err) == errorText(t.Kubelet.Err) &&
		s.Stub == t.Stub && s.Uplink == t.Uplink && errorText(s.Problem.Err) == errorText(t.Problem.Err)
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
	if r.state.info == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(uplinkPath), stubFile))
	if err == nil && os.SameFile(info, r.state.info) {
		return true
	}
	for _, e := range r.file.Nameservers {
		if e.Text != "127.0.0.53" && e.Text != "127.0.0.54" { // the second is for proxies (DNSStubListener=)
			return false
		}
	}
	return len(r.file.Nameservers) > 0
}

// isLoopbackOnly reports whether f has nameservers, all on the loopback.
func isLoopbackOnly(f resolvconf.File) bool {
	for _, e := range f.Nameservers {
		if !isLoopback(e.Text) {
			return false
		}
	}
	return len(f.Nameservers) > 0
}

// isLoopback reports whether nameserver is an address of the local host. Linux also sends
// packets for the unspecified address to itself.
func isLoopback(nameserver string) bool {
	a, err := netip.ParseAddr(nameserver)
	a = a.Unmap()
	return err == nil && (a.IsLoopback() || a.IsUnspecified())
}
