// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// cause is why the file of a sandbox is compared with a decision. A higher one includes the
// lower ones, except causeTouch.
type cause int

const (
	causeTouch    cause = iota + 1 // the file was rewritten
	causeVerify                    // the timer
	causeHost                      // the host's resolv.conf has changed
	causePod                       // the annotations of the pod have changed
	causeSettings                  // the configuration has changed
	causeAll                       // the command refresh --all
	causeCommand                   // the command refresh for this pod
)

// event returns the event of a State.
func (c cause) event() Event {
	switch c {
	case causeVerify:
		return Verify
	case causeCommand:
		return Command
	}
	return Change
}

// delayed is a cause that is due later.
type delayed struct {
	id    string
	cause cause
}

// queue holds the sandboxes whose files are to be compared, each once: a pod that causes many
// refreshes waits behind the others.
type queue struct {
	wake chan struct{} // has a token when a sandbox was added

	mu     sync.Mutex
	ids    []string
	causes map[string]cause      // by ID
	later  map[delayed]time.Time // when they are due
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), causes: map[string]cause{}, later: map[delayed]time.Time{}}
}

// push adds a sandbox, or raises its cause if it is in the queue already.
func (q *queue) push(id string, c cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.causes[id] == 0 {
		q.ids = append(q.ids, id)
	}
	q.causes[id] = max(q.causes[id], c)
	daemon.Notify(q.wake)
}

// pushLater adds a sandbox that is due after a delay, unless it is in the queue for this cause.
func (q *queue) pushLater(id string, c cause, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.later[delayed{id, c}]; !ok {
		q.later[delayed{id, c}] = time.Now().Add(delay)
	}
	daemon.Notify(q.wake)
}

// pop removes a sandbox that is due, or the first one. If there is none, ok is false, and wait is the time
// until the next one is due, 0 if there is none.
func (q *queue) pop() (id string, c cause, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for d, at := range q.later {
		left := time.Until(at)
		if left <= 0 {
			delete(q.later, d)
			return d.id, d.cause, 0, true
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	if len(q.ids) == 0 {
		return "", 0, wait, false
	}
	id, q.ids = q.ids[0], q.ids[1:]
	c = q.causes[id]
	delete(q.causes, id)
	return id, c, 0, true
}
