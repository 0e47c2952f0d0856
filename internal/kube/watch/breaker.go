// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A breaker opens after breakerLimit consecutive failures, for breakerPause.
const (
	breakerLimit = 5
	breakerPause = 10 * time.Second
)

// breaker keeps lookups from waiting for an API server that does not respond. After the
// pause it allows one call at a time; a success closes it.
type breaker struct {
	log *slog.Logger

	mu       sync.Mutex
	failures int       // consecutive
	until    time.Time // once failures has reached breakerLimit: no call before
	last     error
}

// allow returns nil if the API may be called now. The caller reports the outcome to
// succeeded or failed.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerLimit {
		return nil
	}
	if left := time.Until(b.until); left > 0 {
		return fmt.Errorf("not calling the API server for another %v after %d consecutive failures: %w",
			left.Round(time.Millisecond), b.failures, b.last)
	}
	b.until = time.Now().Add(breakerPause)
	return nil
}

// isOpen reports whether the last calls have failed.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= breakerLimit
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= breakerLimit {
		b.log.Info("API server responds again")
	}
	b.failures, b.last = 0, nil
}

func (b *breaker) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.last = err
	if b.failures < breakerLimit {
		return
	}
	b.until = time.Now().Add(breakerPause)
	if b.failures == breakerLimit {
		b.log.Warn("API server unreachable, cannot look up pods that the watch has not delivered",
			"failures", b.failures, "pause", breakerPause, "error", err)
	}
}
