// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Defaults of Config.
const (
	DefaultMaxEntries = 20_000
	DefaultMaxBytes   = 16 << 20
	DefaultMaxTTL     = time.Hour
	DefaultMaxDenial  = 30 * time.Minute
	DefaultMaxStale   = time.Hour
)

const (
	// mostEntries is where Config.MaxEntries is a mistake: the empty buckets would
	// take 128 MiB.
	mostEntries = 1 << 24
	// popular is how many hits make an entry worth a refresh before its end.
	popular = 3
	// nearEnd is the part of its lifetime, 1/nearEnd, that is an entry's end.
	nearEnd = 10
	// refreshTime is how long the asker who was told to refresh is given before
	// another is told.
	refreshTime = 5 * time.Second
	// retryTime is how long upstream is left alone for a stale entry after it
	// failed (RFC 8767 section 5: at most every 30 seconds).
	retryTime = 30 * time.Second
)

// Config are the bounds of a Cache. The zero value of each field is its default.
type Config struct {
	MaxEntries int           // DefaultMaxEntries; at most 16,777,216
	MaxBytes   int           // DefaultMaxBytes; what entries take, with overhead
	MaxTTL     time.Duration // DefaultMaxTTL; answers are kept no longer
	MaxDenial  time.Duration // DefaultMaxDenial; the same for negative ones
	MaxStale   time.Duration // DefaultMaxStale; how long past its TTL an answer is kept; negative: not at all
}

func (c *Config) fill() error {
	for _, v := range []*int{&c.MaxEntries, &c.MaxBytes} {
		if *v < 0 {
			return fmt.Errorf("a cache cannot hold %d", *v)
		}
	}
	if c.MaxEntries > mostEntries {
		return fmt.Errorf("a cache cannot hold %d entries, at most %d", c.MaxEntries, mostEntries)
	}
	for _, v := range []*time.Duration{&c.MaxTTL, &c.MaxDenial} {
		if *v < 0 || *v > 0 && *v < time.Second {
			return fmt.Errorf("a cache cannot keep replies for %v, TTLs are whole seconds", *v)
		}
	}
	setDefault(&c.MaxEntries, DefaultMaxEntries)
	setDefault(&c.MaxBytes, DefaultMaxBytes)
	setDefault(&c.MaxTTL, DefaultMaxTTL)
	setDefault(&c.MaxDenial, DefaultMaxDenial)
	setDefault(&c.MaxStale, DefaultMaxStale)
	c.MaxStale = max(c.MaxStale, 0)
	return nil
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// Cache holds replies by their questions. All methods may be called concurrently;
// readers never wait. Make one with [New].
type Cache struct {
	cfg     Config
	seed    maphash.Seed
	buckets []atomic.Pointer[entry] // a power of two, chained by entry.next

	mu    sync.Mutex // held by writers of buckets and of all below
	queue queue

	// Written under mu, read by anyone.
	entries   atomic.Int64
	bytes     atomic.Int64
	evictions atomic.Uint64
}

// New returns an empty cache. Bounds that no cache can have are an error.
func New(cfg Config) (*Cache, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	size := 1 << bits.Len(uint(cfg.MaxEntries-1))
	return &Cache{cfg: cfg, seed: maphash.MakeSeed(), buckets: make([]atomic.Pointer[entry], size)}, nil
}

// Get looks for the reply to q.
func (c *Cache) Get(q Question, now time.Time) Hit {
	var buf [maxQuestion]byte
	k, ok := q.key(buf[:0])
	if !ok {
		return Hit{}
	}
	e := c.find(k, k.hash(c.seed))
	if e == nil {
		return Hit{}
	}
	age := max(now.Sub(e.stored), 0)
	found := state(e, age)
	if found == Miss {
		return Hit{}
	}
	e.hit()
	return Hit{State: found, entry: e, question: q, age: age}
}

// NXDomainTTL tells whether the reply to q is known to be that the name does not exist, and
// for how many seconds that holds on. It is Get for those who need no more: it does not
// ask for a refresh.
func (c *Cache) NXDomainTTL(q Question, now time.Time) (ttl uint32, ok bool) {
	var buf [maxQuestion]byte
	k, ok := q.key(buf[:0])
	if !ok {
		return 0, false
	}
	e := c.find(k, k.hash(c.seed))
	if e == nil || !e.nameError() {
		return 0, false
	}
	age := max(now.Sub(e.stored), 0)
	if age >= e.life {
		return 0, false
	}
	e.hit()
	return uint32(e.life/time.Second - age/time.Second), true
}

// state says what e is at an age, and picks who refreshes it.
func state(e *entry, age time.Duration) State {
	left := e.life - age
	switch {
	case left > e.life/nearEnd, left > 0 && (e.failure || e.hits.Load() < popular):
		return Fresh
	case left > 0:
		due := e.refresh.Load()
		if int64(age) < due || !e.refresh.CompareAndSwap(due, int64(age+refreshTime)) {
			return Fresh
		}
		return Expiring
	case age >= e.kept:
		return Miss
	case int64(age) < e.retry.Load():
		return Failing
	default:
		return Stale
	}
}

func (c *Cache) find(k key, hash uint64) *entry {
	for e := c.bucket(hash).Load(); e != nil; e = e.next.Load() {
		if e.hash == hash && k.is(e) {
			return e
		}
	}
	return nil
}

func (c *Cache) bucket(hash uint64) *atomic.Pointer[entry] {
	return &c.buckets[hash&uint64(len(c.buckets)-1)]
}

// Put keeps the reply to q, if it is of a kind that can be kept, and tells whether
// it did. It does not change reply. A SERVFAIL does not displace an answer that is
// fresh or can still be served stale: it is noted there as the failure of a refresh.
// So replies can be put as they come; one that never came is put as a SERVFAIL.
func (c *Cache) Put(q Question, reply *dns.Msg, now time.Time) bool {
	k, ok := q.key(make([]byte, 0, maxQuestion))
	if !ok {
		return false
	}
	name, end, err := dns.UnpackDomainName(k.question, 0)
	if err != nil || end != len(q.Name) {
		return false
	}
	verdict, ttl := judge(reply, name, q.Type, q.Class)
	switch verdict {
	case answer:
		ttl = min(ttl, seconds(c.cfg.MaxTTL))
	case denial:
		ttl = min(ttl, seconds(c.cfg.MaxDenial))
	}
	if verdict == useless || ttl == 0 {
		return false
	}
	limit := ttl
	if verdict == answer { // a CNAME may outlive the address it leads to
		limit = seconds(c.cfg.MaxTTL)
	}
	e := pack(k, name, reply, limit)
	if e == nil || e.size() > c.cfg.MaxBytes {
		return false
	}
	e.hash, e.stored, e.life = k.hash(c.seed), now, time.Duration(ttl)*time.Second
	e.kept = e.life
	if !e.failure {
		e.kept += c.cfg.MaxStale
	}
	return c.store(k, e, now)
}

func seconds(d time.Duration) uint32 { return uint32(min(d/time.Second, maxTTL)) }

func (c *Cache) store(k key, e *entry, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.find(k, e.hash)
	if old != nil {
		age := now.Sub(old.stored)
		if e.failure && !old.failure && age < old.kept {
			old.retry.Store(int64(age + retryTime))
			return false
		}
		e.hits.Store(old.hits.Load()) // popularity is the question's
		c.forgetLocked(old)
	}
	c.makeRoomLocked(e.size(), now)
	c.rememberLocked(e)
	first := c.bucket(e.hash)
	e.next.Store(first.Load())
	first.Store(e) // before the old one goes: readers find one or the other
	if old != nil {
		c.unlinkLocked(old)
	}
	return true
}

// unlinkLocked takes e out of its bucket. Readers who are at it find their way on.
func (c *Cache) unlinkLocked(e *entry) {
	at := c.bucket(e.hash)
	for at.Load() != e {
		at = &at.Load().next
	}
	at.Store(e.next.Load())
}

// Clear forgets everything, as it should be after a change of upstream servers: they
// may see another network.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queue.oldest != nil {
		e := c.queue.oldest
		c.forgetLocked(e)
		c.unlinkLocked(e)
	}
}

// Stats are figures for metrics.
type Stats struct {
	Entries   int
	Bytes     int    // as bounded by Config.MaxBytes
	Evictions uint64 // entries that made room for others, since New
}

// Stats returns the figures of now.
func (c *Cache) Stats() Stats {
	return Stats{Entries: int(c.entries.Load()), Bytes: int(c.bytes.Load()), Evictions: c.evictions.Load()}
}
