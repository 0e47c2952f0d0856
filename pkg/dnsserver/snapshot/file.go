// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// MaxSize is the size in bytes of the largest file that is read: some ten million
// endpoints.
const MaxSize = 256 << 20

// Write replaces the file by one with the zone. When it fails, the old one stays.
func Write(path string, h Header, s *zone.Snapshot) error {
	if err := write(path, h, s); err != nil {
		return fmt.Errorf("writing snapshot %s: %w", path, err)
	}
	return nil
}

func write(path string, h Header, s *zone.Snapshot) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once it is renamed
	err = Encode(f, h, s)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename last over a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Read reads a file that was written by Write.
func Read(path string) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
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
		return nil, fmt.Errorf("has more than %d bytes", MaxSize)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return Decode(data)
}

// CheckUsable says why a file with the header must not be served: it is of another cluster
// than want, without what want asks for, or from longer than maxAge before now. The
// Cluster is compared when both are known, want.Time not at all.
func (h Header) CheckUsable(want Header, now time.Time, maxAge time.Duration) error {
	switch age := now.Sub(h.Time); {
	case h.Domain != want.Domain:
		return fmt.Errorf("is of the cluster domain %s, this one is %s", h.Domain, want.Domain)
	case h.Cluster != want.Cluster && h.Cluster != "" && want.Cluster != "":
		return fmt.Errorf("is of another cluster: its kube-system has UID %s, this one %s", h.Cluster, want.Cluster)
	case want.HasPods && !h.HasPods:
		return errors.New("was written without pods, which are to be verified")
	case age > maxAge:
		return fmt.Errorf("is %v old, the limit is %v", age.Round(time.Second), maxAge)
	}
	return nil
}
