// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// A slot runs one background task at a time. It is not safe for concurrent use.
type slot struct {
	next daemon.Task // not started yet; nil: none
	stop func()      // ends the running task and waits for it; nil: none runs
}

// start starts the next task instead of the running one.
func (s *slot) start(ctx context.Context) {
	if s.next == nil {
		return
	}
	s.end()
	s.next, s.stop = nil, daemon.Start(ctx, s.next)
}

// end ends the running task.
func (s *slot) end() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}
