// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package logbuffer

import (
	"bytes"
	"sync"
)

// Buffer is a buffer for many goroutines. The zero value is empty.
type Buffer struct {
	hung sync.Mutex // held while writes must block
	mu   sync.Mutex
	b    bytes.Buffer
}

// Hang blocks all writes until resume is called, as a log that nothing reads.
func (b *Buffer) Hang() (resume func()) {
	b.hung.Lock()
	return b.hung.Unlock
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.hung.Lock()
	defer b.hung.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
