// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// errNoSlot is the error of a lookup that has ended before it got a slot.
var errNoSlot = errors.New("waiting for the requests of other pods")

// slots limits how many requests are processed at the same time, and shares them between the
// namespaces: the author of many large pods does not delay the pods of others. A slot that becomes
// free goes to the namespace with the fewest slots. Several such take turns, however many requests
// each of them has: a tenant may have many namespaces.
type slots struct {
	share int // most slots of a namespace; fewer than all, so that there is one for another

	mu      sync.Mutex
	free    int
	held    map[string]int // by namespace
	waiting []*queue       // one for a namespace, in the order of their turns
}

// queue is the requests of a namespace that wait, in the order of their arrival. It is not empty.
type queue struct {
	namespace string
	requests  []chan struct{} // closed when the request has a slot
}

func newSlots(n, share int) *slots { return &slots{share: share, free: n, held: map[string]int{}} }

// acquire returns when namespace has a slot, which release gives back. It returns an error that wraps
// errNoSlot and that of ctx if ctx ends before.
func (s *slots) acquire(ctx context.Context, namespace string) (release func(), err error) {
	granted := s.enqueue(namespace)
	release = func() { s.release(namespace) }
	select {
	case <-granted:
		if ctx.Err() == nil {
			return release, nil
		}
	case <-ctx.Done():
	}
	if !s.withdraw(namespace, granted) { // granted, at the end of ctx
		release()
	}
	return nil, fmt.Errorf("%w: %w", errNoSlot, ctx.Err())
}

// enqueue adds a request. The channel is closed when it has a slot.
func (s *slots) enqueue(namespace string) (granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.indexLocked(namespace)
	if i < 0 {
		i = len(s.waiting)
		s.waiting = append(s.waiting, &queue{namespace: namespace})
	}
	granted = make(chan struct{})
	s.waiting[i].requests = append(s.waiting[i].requests, granted)
	s.grantLocked()
	return granted
}

// withdraw removes a request, and reports whether it was still waiting.
func (s *slots) withdraw(namespace string, granted chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.indexLocked(namespace)
	if i < 0 {
		return false
	}
	q := s.waiting[i]
	at := slices.Index(q.requests, granted)
	if at < 0 {
		return false
	}
	if q.requests = slices.Delete(q.requests, at, at+1); len(q.requests) == 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return true
}

// indexLocked returns the index of the queue of namespace, -1 if there is none.
func (s *slots) indexLocked(namespace string) int {
	return slices.IndexFunc(s.waiting, func(q *queue) bool { return q.namespace == namespace })
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
		for i, q := range s.waiting {
			held := s.held[q.namespace]
			if held < s.share && (next < 0 || held < s.held[s.waiting[next].namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		q := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.free--
		s.held[q.namespace]++
		close(q.requests[0])
		if q.requests = q.requests[1:]; len(q.requests) > 0 {
			s.waiting = append(s.waiting, q) // its next turn is after those of all others
		}
	}
}

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
