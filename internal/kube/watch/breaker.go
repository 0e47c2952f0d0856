// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A breaker opens after so many failures in a row, for so long.
const (
	breakerLimit = 5
	breakerPause = 10 * time.Second
)

// breaker keeps look-ups from waiting for an API that does not answer. After the
// pause one call is let through at a time; its success closes the breaker.
type breaker struct {
	log *slog.Logger

	mu       sync.Mutex
	failures int       // in a row
	until    time.Time // when failures has reached the limit: no call before
	last     error
}

// allow returns nil if the API may be called now. The outcome goes to succeeded or
// failed.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerLimit {
		return nil
	}
	if left := time.Until(b.until); left > 0 {
		return fmt.Errorf("the API is not asked for another %v, it failed %d times in a row: %w",
			left.Round(time.Millisecond), b.failures, b.last)
	}
	b.until = time.Now().Add(breakerPause)
	return nil
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= breakerLimit {
		b.log.Info("the API answers again")
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
		b.log.Warn("the API does not answer, pods that the watch has not delivered stay unknown",
			"failures", b.failures, "pause", breakerPause, "error", err)
	}
}
