// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// errNoSlot is the error of a lookup that has ended before it got a slot.
var errNoSlot = errors.New("waiting for the requests of other pods")

// slots limits how many requests are processed at the same time, and shares them between the
// namespaces: the author of many large pods does not delay the pods of others. A slot that becomes
// free goes to the namespace with the fewest slots, and of several such to the one that has waited
// longest.
type slots struct {
	share int // most slots of a namespace; fewer than all, so that there is one for another

	mu      sync.Mutex
	free    int
	held    map[string]int // by namespace
	waiting []*waiter      // in the order of their arrival
}

type waiter struct {
	namespace string
	granted   chan struct{} // closed when the waiter has a slot
}

func newSlots(n, share int) *slots { return &slots{share: share, free: n, held: map[string]int{}} }

// acquire returns when namespace has a slot, which release gives back. It returns an error that wraps
// errNoSlot and that of ctx if ctx ends before.
func (s *slots) acquire(ctx context.Context, namespace string) (release func(), err error) {
	w := &waiter{namespace, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grantLocked()
	s.mu.Unlock()
	release = func() { s.release(namespace) }
	select {
	case <-w.granted:
		if ctx.Err() == nil {
			return release, nil
		}
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, w)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // granted, at the end of ctx
		release()
	}
	return nil, fmt.Errorf("%w: %w", errNoSlot, ctx.Err())
}

func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[namespace]--; s.held[namespace] == 0 {
		delete(s.held, namespace)
	}
	s.grantLocked()
}

// grantLocked gives the free slots to those that wait.
func (s *slots) grantLocked() {
	for s.free > 0 {
		next := -1
		for i, w := range s.waiting {
			held := s.held[w.namespace]
			if held < s.share && (next < 0 || held < s.held[s.waiting[next].namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.free--
		s.held[w.namespace]++
		close(w.granted)
	}
}
