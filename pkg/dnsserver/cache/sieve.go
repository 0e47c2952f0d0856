// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import "time"

// queue orders the entries by age and picks who makes room, after SIEVE (Zhang et
// al., NSDI 2024). A hand goes from the oldest to the newest and begins again. Who
// was asked for since it last came by stays, where it is; who was not goes. So a hit
// moves nothing, and one pass of names that are asked for once does not wash out
// those that are asked for always.
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

// victim moves the hand to the entry that is to go, one that is spent if it meets
// one. The queue is not empty.
func (q *queue) victim(spent func(*entry) bool) *entry {
	for {
		if q.hand == nil {
			q.hand = q.oldest
		}
		if q.hand.hits.Load() == 0 || spent(q.hand) {
			return q.hand
		}
		q.hand.hits.Store(0)
		q.hand = q.hand.newer
	}
}

// makeRoomLocked makes room for one more entry of a size, which fits an empty cache.
func (c *Cache) makeRoomLocked(size int, now time.Time) {
	spent := func(e *entry) bool { return now.Sub(e.stored) >= e.kept }
	for int(c.entries.Load()) >= c.cfg.MaxEntries || int(c.bytes.Load())+size > c.cfg.MaxBytes {
		e := c.queue.victim(spent)
		c.forgetLocked(e)
		c.unlinkLocked(e)
		c.evictions.Add(1)
	}
}

func (c *Cache) rememberLocked(e *entry) {
	c.queue.push(e)
	c.entries.Add(1)
	c.bytes.Add(int64(e.size()))
}

// forgetLocked takes e off the books; readers still find it.
func (c *Cache) forgetLocked(e *entry) {
	c.queue.remove(e)
	c.entries.Add(-1)
	c.bytes.Add(-int64(e.size()))
}
