// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import "time"

// queue orders the entries by age and selects the one to evict, by SIEVE (Zhang et al.,
// NSDI 2024). A hand moves from the oldest entry to the newest and starts over. Entries hit
// since the hand last passed stay in place; the others are evicted. A hit moves nothing,
// and a burst of names that are queried once does not evict popular ones.
type queue struct {
	newest, oldest *entry
	hand           *entry // nil: at the oldest
}

func (q *queue) push(e *entry) {
	e.older = q.newest
	if q.newest != nil {
		q.newest.newer = e
	} else {
		q.oldest = e
	}
	q.newest = e
}

func (q *queue) remove(e *entry) {
	if q.hand == e {
		q.hand = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		q.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		q.newest = e.older
	}
	e.newer, e.older = nil, nil
}

// victim moves the hand to the entry to evict, which is the first that is expired or was
// not hit. The queue must not be empty.
func (q *queue) victim(expired func(*entry) bool) *entry {
	for {
		if q.hand == nil {
			q.hand = q.oldest
		}
		if q.hand.hits.Load() == 0 || expired(q.hand) {
			return q.hand
		}
		q.hand.hits.Store(0)
		q.hand = q.hand.newer
	}
}

// evictLocked evicts entries until one more of a size fits. An empty cache has room for it.
func (c *Cache) evictLocked(size int, now time.Time) {
	expired := func(e *entry) bool { return now.Sub(e.stored) >= e.retention }
	for int(c.entries.Load()) >= c.cfg.MaxEntries || int(c.bytes.Load())+size > c.cfg.MaxBytes {
		e := c.queue.victim(expired)
		c.removeLocked(e)
		c.unlinkLocked(e)
		c.evictions.Add(1)
	}
}

// addLocked adds e to the queue and the counters.
func (c *Cache) addLocked(e *entry) {
	c.queue.push(e)
	c.entries.Add(1)
	c.bytes.Add(int64(e.size()))
}

// removeLocked removes e from the queue and the counters; readers still find it.
func (c *Cache) removeLocked(e *entry) {
	c.queue.remove(e)
	c.entries.Add(-1)
	c.bytes.Add(-int64(e.size()))
}
