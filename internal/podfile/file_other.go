// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package podfile

import (
	"errors"
	"io/fs"
	"time"
)

// File is an open resolv.conf of a sandbox.
type File struct{}

// Open fails: containers have these files on Linux.
func Open([]string, string, string) (*File, error) { return nil, errors.ErrUnsupported }

// Create fails, like Open.
func Create([]string, string, string) (*File, error) { return nil, errors.ErrUnsupported }

// IsAsCreated returns false.
func (f *File) IsAsCreated() bool { return false }

// Close does nothing.
func (f *File) Close() error { return nil }

// Read fails.
func (f *File) Read() ([]byte, error) { return nil, errors.ErrUnsupported }

// Replace fails.
func (f *File) Replace([]byte, string, []byte) error { return errors.ErrUnsupported }

// Restore fails.
func (f *File) Restore([]byte, []byte) error { return errors.ErrUnsupported }

// Touch fails.
func (f *File) Touch() error { return errors.ErrUnsupported }

// uptime returns 0, not known: relay and agent run on Linux.
func uptime() time.Duration { return 0 }

// IsDeleted returns false.
func IsDeleted(fs.FileInfo) bool { return false }
