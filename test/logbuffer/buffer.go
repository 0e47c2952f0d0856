// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package logbuffer

import (
	"bytes"
	"sync"
)

// Buffer is a buffer for many goroutines. The zero value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
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
