// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"time"
)

// interruptGrace is the time that a call has to return by itself after it was interrupted: enough
// to write its error.
const interruptGrace = time.Second

// Interruptible calls f, which must change nothing. If f is still running one second after the end of
// ctx, Interruptible returns: f may read a file without end, such as a named pipe that no program
// writes to, which no context ends. The process must then end.
func Interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return fmt.Errorf("ended before completion: %w", context.Cause(ctx))
	}
}
