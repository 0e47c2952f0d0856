// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// maxSnapshot is the largest size of a file in bytes: about ten million endpoints.
const maxSnapshot = 256 << 20

// snapshotMagic is the first line of a file. It is followed by a Snapshot in encoding/gob, and by the
// SHA-256 of all preceding bytes. 100,000 endpoints are 1.9 MB and are decoded in about 0.15 s: 0.1 s more than
// with a format written by hand in 480 lines, 0.1 s less than with github.com/fxamacker/cbor.
const snapshotMagic = "dnsconfigurer zone, format 2\n"

// SnapshotHeader identifies the zone in a file.
type SnapshotHeader struct {
	// Domain is the domain of the zone.
	Domain fqdn.Name

	// Cluster is the UID of the namespace kube-system, "" if unknown.
	Cluster string

	// Time is the time of the data, in whole seconds.
	Time time.Time

	// HasPods is set if the file contains the pods.
	HasPods bool

	// HasExternal is set if the Services have their external addresses.
	HasExternal bool
}

// Snapshot is the content of a file: a SnapshotHeader, and valid objects for a zone of its Domain.
type Snapshot struct {
	SnapshotHeader
	Namespaces     []string
	Services       []*zone.Service
	EndpointSlices []*zone.EndpointSlice
	Pods           []*zone.Pod
}

// WriteSnapshot writes a zone to a file. If it fails, the old file stays.
func WriteSnapshot(path string, h SnapshotHeader, s *zone.Snapshot) error {
	if err := atomicfile.Write(path, func(w io.Writer) error { return encodeSnapshot(w, h, s) }); err != nil {
		return fmt.Errorf("cannot write snapshot %s: %w", path, err)
	}
	return nil
}

func encodeSnapshot(w io.Writer, h SnapshotHeader, s *zone.Snapshot) error {
	h.Time = h.Time.Truncate(time.Second)
	state := Snapshot{
		SnapshotHeader: h, Namespaces: slices.Collect(s.Namespaces()), Services: slices.Collect(s.Services()),
		EndpointSlices: slices.Collect(s.EndpointSlices()),
	}
	if h.HasPods {
		state.Pods = slices.Collect(s.Pods())
	}
	digest := sha256.New()
	out := io.MultiWriter(w, digest)
	if _, err := io.WriteString(out, snapshotMagic); err != nil {
		return err
	}
	if err := gob.NewEncoder(out).Encode(&state); err != nil {
		return err
	}
	_, err := w.Write(digest.Sum(nil))
	return err
}

// ReadSnapshot reads a file written by WriteSnapshot.
func ReadSnapshot(path string) (*Snapshot, error) {
	text, err := atomicfile.ReadRegular(path, maxSnapshot)
	var s *Snapshot
	if err == nil {
		s, err = decodeSnapshot(text)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	return s, nil
}

// decodeSnapshot returns the content of a file, all of it, or an error.
func decodeSnapshot(data []byte) (*Snapshot, error) {
	text, ok := bytes.CutPrefix(data, []byte(snapshotMagic))
	if !ok {
		return nil, errors.New("is not a snapshot of this version")
	}
	end := len(data) - sha256.Size
	if digest := sha256.Sum256(data[:max(end, 0)]); end < len(snapshotMagic) || !bytes.Equal(digest[:], data[end:]) {
		return nil, errors.New("is incomplete or damaged: digest mismatch")
	}
	s, r := &Snapshot{}, bytes.NewReader(text[:len(text)-sha256.Size])
	err := gob.NewDecoder(r).Decode(s)
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d extra bytes at the end", r.Len())
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("is invalid: %w", err)
	}
	return s, nil
}

// check returns an error for an object that a zone does not accept. CheckUsable compares the domain.
func (s *Snapshot) check() error {
	return errors.Join(
		checkAll(s.Namespaces, func(name string) error { return zone.CheckNamespace(s.Domain, name) }),
		checkAll(s.Services, func(o *zone.Service) error { return o.Check(s.Domain) }),
		checkAll(s.EndpointSlices, func(o *zone.EndpointSlice) error { return o.Check(s.Domain) }),
		checkAll(s.Pods, func(o *zone.Pod) error { return o.Check(s.Domain) }),
	)
}

// checkAll returns the first error of check.
func checkAll[T any](items []T, check func(T) error) error {
	for _, item := range items {
		if err := check(item); err != nil {
			return err
		}
	}
	return nil
}

// CheckUsable returns an error if a file with the header must not be used for want: it is of
// another domain or cluster, lacks the pods, or is older than maxAge. Clusters are compared
// if both are known; want.Time is ignored.
func (h SnapshotHeader) CheckUsable(want SnapshotHeader, now time.Time, maxAge time.Duration) error {
	switch age := now.Sub(h.Time); {
	case h.Domain != want.Domain:
		return fmt.Errorf("is of another cluster domain, want %s", want.Domain)
	case h.Cluster != want.Cluster && h.Cluster != "" && want.Cluster != "":
		return fmt.Errorf("is of another cluster: UID of kube-system is %s, want %s", h.Cluster, want.Cluster)
	case want.HasPods && !h.HasPods:
		return errors.New("has no pods, which pod verification requires")
	case want.HasExternal && !h.HasExternal:
		return errors.New("has no external addresses, which external zones require")
	case age > maxAge:
		return fmt.Errorf("is %v old: the limit is %v", age.Round(time.Second), maxAge)
	}
	return nil
}
