// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// MaxSize is the largest size of a file in bytes: about ten million endpoints.
const MaxSize = 256 << 20

// Write writes a zone to a file. If it fails, the old file stays.
func Write(path string, h Header, s *zone.Snapshot) error {
	if err := atomicfile.Write(path, func(w io.Writer) error { return Encode(w, h, s) }); err != nil {
		return fmt.Errorf("cannot write snapshot %s: %w", path, err)
	}
	return nil
}

// Read reads a file written by Write.
func Read(path string) (*State, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a FIFO waits for a writer
		return nil, fmt.Errorf("snapshot %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read snapshot: %w", err)
	}
	defer f.Close()
	s, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s %w", path, err)
	}
	return s, nil
}

func read(f *os.File) (*State, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("is larger than %d bytes", MaxSize)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return Decode(data)
}

// CheckUsable returns an error if a file with the header must not be used for want: it is of
// another domain or cluster, lacks the pods, or is older than maxAge. Clusters are compared
// if both are known; want.Time is ignored.
func (h Header) CheckUsable(want Header, now time.Time, maxAge time.Duration) error {
	switch age := now.Sub(h.Time); {
	case h.Domain != want.Domain:
		return fmt.Errorf("is of the cluster domain %s, want %s", h.Domain, want.Domain)
	case h.Cluster != want.Cluster && h.Cluster != "" && want.Cluster != "":
		return fmt.Errorf("is of another cluster: UID of kube-system is %s, want %s", h.Cluster, want.Cluster)
	case want.HasPods && !h.HasPods:
		return errors.New("has no pods, which pod verification requires")
	case age > maxAge:
		return fmt.Errorf("is %v old: the limit is %v", age.Round(time.Second), maxAge)
	}
	return nil
}
