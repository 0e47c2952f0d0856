// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import "sync"

// cause is why the file of a sandbox is compared with a decision. A higher one includes the
// lower ones.
type cause int

const (
	causeVerify   cause = iota + 1 // the timer
	causeHost                      // the host's resolv.conf has changed
	causePod                       // the annotations of the pod have changed
	causeSettings                  // the configuration has changed
	causeAll                       // the command refresh --all
	causeCommand                   // the command refresh for this pod
)

// queue holds the sandboxes whose files are to be compared, each once: a pod that causes many
// refreshes waits behind the others.
type queue struct {
	wake chan struct{} // has a token when a sandbox was added

	mu     sync.Mutex
	ids    []string
	causes map[string]cause // by ID
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), causes: map[string]cause{}}
}

// push adds a sandbox, or raises its cause if it is in the queue already.
func (q *queue) push(id string, c cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.causes[id] == 0 {
		q.ids = append(q.ids, id)
	}
	q.causes[id] = max(q.causes[id], c)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop removes the first sandbox. ok is false if there is none.
func (q *queue) pop() (id string, c cause, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ids) == 0 {
		return "", 0, false
	}
	id, q.ids = q.ids[0], q.ids[1:]
	c = q.causes[id]
	delete(q.causes, id)
	return id, c, true
}
