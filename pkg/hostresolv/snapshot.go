// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Snapshot is the host's resolv.conf at one time. It is a value that is never
// changed; the lists of File are shared by all copies.
type Snapshot struct {
	// File is the last good file: one that the kubelet reads without an error
	// and that names a nameserver. As long as there has been none, it is what
	// was read, with its Err.
	File resolvconf.File

	// Kubelet is what the kubelet hands to pods: the file that Path leads to, also
	// when it is a stub or names no nameserver. The kubelet starts no pod with a
	// file that it refuses, so Kubelet is the last one that it does not; as long as
	// there has been none, it is what was read, with its Err.
	Kubelet resolvconf.File

	Path   string            // the file asked for
	Source string            // the file that File is of, at the end of all links; absolute
	Digest [sha256.Size]byte // SHA-256 of the text of File; zero if it was not opened
	Since  time.Time         // when this text was first read from Source

	// Stub is true if Path leads to the stub of systemd-resolved: it is the
	// stub file, or names the addresses of the stub and no others.
	Stub bool

	// Uplink is true if File is the uplink file of systemd-resolved, which was
	// read in the place of the stub.
	Uplink bool

	// Problem tells why File is not the file as it is now; the zero value if it
	// is. As long as there has been no good file, what is wrong with File.
	Problem Problem

	asked [sha256.Size]byte // SHA-256 of the text of Kubelet
}

// Problem is a reason not to use a file.
type Problem struct {
	Err   error     // what is wrong; nil: nothing
	Since time.Time // when the first of an unbroken row of problems was found
}

// Loopback returns the nameservers of File that lead back to where they are asked
// from: out of reach for a pod, and a loop for a DNS server on this node.
func (s Snapshot) Loopback() []string {
	var list []string
	for _, e := range s.File.Nameservers {
		if loopback(e.Text) {
			list = append(list, e.Text)
		}
	}
	return list
}

var errNoNameserver = errors.New("it names no nameserver")

// unusable tells why a file must not replace a good one; nil: it may.
func unusable(f resolvconf.File) error {
	if f.Err == nil && len(f.Nameservers) == 0 {
		return errNoNameserver
	}
	return f.Err
}

// after returns the snapshot that follows s when the files are as o says. Its File is
// the first of these:
//
//  1. the uplink file, if it is to be read and is good
//  2. the uplink file that s has, if it is to be read: its stub is no replacement
//  3. Path, if it is good
//  4. the last good file
//  5. Path as it is
func (s Snapshot) after(o observation, now time.Time) Snapshot {
	next, follow := s, o.uplink != nil
	if o.asked.file.Err == nil || s.Kubelet.Err != nil || s.Since.IsZero() {
		next.Kubelet, next.asked = o.asked.file, o.asked.digest
	}
	problem, uplinkProblem := unusable(o.asked.file), error(nil)
	if follow {
		uplinkProblem = unusable(o.uplink.file)
	}
	switch {
	case follow && uplinkProblem == nil: // 1
		next.take(*o.uplink, now)
		next.Stub, next.Uplink, problem = true, true, nil
	case follow && s.Uplink: // 2
	case problem == nil, unusable(s.File) != nil: // 3, 5
		next.take(o.asked, now)
		next.Stub, next.Uplink = o.stub, false
	} // else 4
	if problem == nil && uplinkProblem != nil {
		problem = fmt.Errorf("the uplink file of systemd-resolved: %w", uplinkProblem)
	}
	next.Problem = s.Problem.next(problem, now)
	return next
}

// next is the problem that follows p when err is found.
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

// take makes r the file of s.
func (s *Snapshot) take(r reading, now time.Time) {
	if s.Since.IsZero() || s.Digest != r.digest || s.Source != r.way.end {
		s.Since = now
	}
	s.File, s.Digest, s.Source = r.file, r.digest, r.way.end
}

// equal tells whether s and t say the same to a reader.
func (s Snapshot) equal(t Snapshot) bool {
	return s.Digest == t.Digest && text(s.File.Err) == text(t.File.Err) && s.Source == t.Source &&
		s.asked == t.asked && text(s.Kubelet.Err) == text(t.Kubelet.Err) &&
		s.Stub == t.Stub && s.Uplink == t.Uplink && text(s.Problem.Err) == text(t.Problem.Err)
}

// text is how errors are compared: every read makes new ones.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
