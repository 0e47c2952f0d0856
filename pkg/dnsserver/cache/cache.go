// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Defaults of Config.
const (
	DefaultMaxEntries = 20_000
	DefaultMaxBytes   = 16 << 20
)

const (
	// MaxTTL caps the TTL of answers.
	MaxTTL = time.Hour
	// MaxDenial caps the TTL of negative replies.
	MaxDenial = 30 * time.Minute
	// MaxStale is how long a reply that is not a failure is retained after its TTL.
	MaxStale = time.Hour

	// prefetchHits is the number of hits from which an entry is prefetched.
	prefetchHits = 3
	// prefetchWindow is the part of a TTL in which an entry is prefetched: the last tenth.
	prefetchWindow = 10
	// prefetchTimeout is the time after which another caller of Get is to prefetch an entry,
	// because the prefetch of the first one may have failed.
	prefetchTimeout = 5 * time.Second
	// DefaultRetryInterval is the pause between queries that fail to renew a stale entry (RFC
	// 8767 section 5: at most one every 30 seconds).
	DefaultRetryInterval = 30 * time.Second
)

// Config holds the bounds of a Cache. Zero values select the defaults.
type Config struct {
	MaxEntries int // the largest number of replies; 0: DefaultMaxEntries

	// MaxBytes is the largest memory of the replies with their overhead, in bytes. The empty
	// cache takes 8 bytes more for each of MaxEntries. 0: DefaultMaxBytes.
	MaxBytes int
}

// Cache holds replies by question. All methods may be called concurrently, and readers
// never wait. Create one with [New].
type Cache struct {
	cfg     Config
	seed    maphash.Seed
	buckets []atomic.Pointer[entry] // a power of two; lists linked by entry.next

	mu         sync.Mutex // held to write buckets and the fields below
	queue      queue
	generation Generation

	// Written with mu held, read without.
	entries   atomic.Int64
	bytes     atomic.Int64
	evictions atomic.Uint64
}

// New returns an empty cache.
func New(cfg Config) *Cache {
	cfg.MaxEntries, cfg.MaxBytes = cmp.Or(cfg.MaxEntries, DefaultMaxEntries), cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	size := 1 << bits.Len(uint(cfg.MaxEntries-1))
	return &Cache{cfg: cfg, seed: maphash.MakeSeed(), buckets: make([]atomic.Pointer[entry], size)}
}

// Get looks up the reply to q at a time, and counts the hit. Without an entry, the State of the Hit
// is Miss. If it is Expiring, the caller must prefetch the entry; other callers get Fresh for five
// seconds.
func (c *Cache) Get(q Question, now time.Time) Hit {
	e, age := c.entryFor(q, now)
	if e == nil {
		return Hit{}
	}
	found := entryState(e, age)
	if found == Miss {
		return Hit{}
	}
	e.countHit()
	return Hit{State: found, entry: e, age: age}
}

// Peek looks up a fresh reply to q. Unlike Get, it has no effect on the entry: it does not
// count as a hit, and triggers no prefetch. Without a fresh reply it returns a Miss.
func (c *Cache) Peek(q Question, now time.Time) Hit {
	e, age := c.entryFor(q, now)
	if e == nil || age >= e.ttl {
		return Hit{}
	}
	return Hit{State: Fresh, entry: e, age: age}
}

// entryFor returns the entry for q and its age, or nil.
func (c *Cache) entryFor(q Question, now time.Time) (*entry, time.Duration) {
	var buf [maxQuestion]byte
	k, ok := q.key(buf[:0])
	if !ok {
		return nil, 0
	}
	e := c.lookup(k, k.hash(c.seed))
	if e == nil {
		return nil, 0
	}
	return e, max(now.Sub(e.stored), 0)
}

// NXDomainTTL reports whether a fresh reply to q is cached and is NXDOMAIN for the name itself, and returns its
// remaining TTL in seconds. Unlike Get, it does not trigger a prefetch.
func (c *Cache) NXDomainTTL(q Question, now time.Time) (ttl uint32, ok bool) {
	e, age := c.entryFor(q, now)
	const answers = 6 // offset of ANCOUNT in the header
	if e == nil || age >= e.ttl || e.wire[3]&maxRcode != dns.RcodeNameError || binary.BigEndian.Uint16(e.wire[answers:]) != 0 {
		return 0, false
	}
	e.countHit()
	return uint32(e.ttl/time.Second - age/time.Second), true
}

// entryState returns the state of e at an age. If the entry is to be prefetched, it returns Expiring
// to one caller, and Fresh to all others for prefetchTimeout.
func entryState(e *entry, age time.Duration) State {
	left := e.ttl - age
	switch {
	case left > e.ttl/prefetchWindow, left > 0 && (e.kind == failure || e.hits.Load() < prefetchHits):
		return Fresh
	case left > 0:
		due := e.prefetchAfter.Load()
		if int64(age) < due || !e.prefetchAfter.CompareAndSwap(due, int64(age+prefetchTimeout)) {
			return Fresh
		}
		return Expiring
	case age >= e.retention:
		return Miss
	case int64(age) < e.retryAfter.Load():
		return Failing
	default:
		return Stale
	}
}

// lookup returns the entry of k, or nil.
func (c *Cache) lookup(k key, hash uint64) *entry {
	for e := c.bucket(hash).Load(); e != nil; e = e.next.Load() {
		if e.hash == hash && k.matches(e) {
			return e
		}
	}
	return nil
}

func (c *Cache) bucket(hash uint64) *atomic.Pointer[entry] {
	return &c.buckets[hash&uint64(len(c.buckets)-1)]
}

// Generation is the number of calls of Clear so far.
type Generation uint64

// PutOptions are the options of Put.
type PutOptions struct {
	// Generation is the result of the last Clear before the query was sent. After a
	// later Clear the reply is not cached: it is from servers that were replaced.
	Generation Generation

	// RetryInterval is the time until a stale entry is renewed if this query failed; 0: DefaultRetryInterval. A
	// failure is cached for the smaller of RetryInterval and FailureTTL, at least a second.
	RetryInterval time.Duration

	// Cause is the caller's number for the cause of a failure. Hit.Cause returns it.
	Cause uint8

	// Discard is set if the reply must not be cached.
	Discard bool

	// LastKnownGood is how long an answer is served stale after the first reply that denies its name. 0:
	// the denial replaces the answer.
	LastKnownGood time.Duration

	// SentAt is when the query was sent. An answer that was cached since is returned instead of the reply:
	// the callers of one query in flight get the same reply, and a long one is packed once, not thousands
	// of times. Zero: the reply is cached.
	SentAt time.Time
}

// Put caches the reply to q if it is cacheable, and reports whether it did. It does not change reply. It
// drops records that do not belong to the question, and turns a loop of aliases into SERVFAIL. A failure
// does not replace an answer that is fresh or stale: it is recorded there as a failed renewal. If no reply
// arrived, put a SERVFAIL. See PutOptions.LastKnownGood for denials.
//
// The Hit has the reply as later hits have it, also if it is not cached, so that the client whose query was forwarded
// receives the same records and TTLs as the clients after it. It is a Miss if the message is not a reply to q, or
// cannot be packed. It is Failing, with the last known good answer, if the reply denies the name.
func (c *Cache) Put(q Question, reply *dns.Msg, now time.Time, options PutOptions) (hit Hit, cached bool) {
	k, ok := q.key(make([]byte, 0, maxQuestion))
	if !ok {
		return Hit{}, false
	}
	hash := k.hash(c.seed)
	if e := c.lookup(k, hash); e != nil && !options.Discard && !options.SentAt.IsZero() && e.isFreshSince(options.SentAt, now) {
		return Hit{State: Fresh, entry: e, age: max(now.Sub(e.stored), 0)}, true
	}
	name, end, err := dns.UnpackDomainName(k.question, 0)
	if err != nil || end != len(q.Name) || !isReply(reply, name, q) {
		return Hit{}, false
	}
	s := scrub(reply, strings.ToLower(name), q)
	kind, ttl := classify(reply, &s, q.Type)
	if e := c.keepDenied(k, hash, reply, &s, now, options); e != nil {
		return Hit{State: Failing, entry: e}, false
	}
	ttl = min(ttl, maxTTLOf(kind, options))
	limit := ttl
	if kind == answer || kind == uncacheable { // a CNAME may outlive the address of its target
		limit = seconds(MaxTTL)
	}
	e := newEntry(k, name, reply, &s, kind, limit)
	if e == nil {
		return Hit{}, false
	}
	e.hash, e.stored, e.ttl = hash, now, time.Duration(ttl)*time.Second
	e.retention = e.ttl
	if e.kind == failure {
		e.cause = options.Cause
	} else {
		e.retention += MaxStale
	}
	hit = Hit{State: Fresh, entry: e}
	if kind == uncacheable || ttl == 0 || options.Discard || e.size() > c.cfg.MaxBytes {
		return hit, false
	}
	return hit, c.store(k, e, now, options)
}

// maxTTLOf returns the largest TTL of a kind of reply, in seconds.
func maxTTLOf(kind replyKind, options PutOptions) uint32 {
	switch kind {
	case denial:
		return seconds(MaxDenial)
	case failure:
		return max(1, seconds(cmp.Or(options.RetryInterval, DefaultRetryInterval))) // RFC 9520 section 3.2: at least 1 s
	}
	return seconds(MaxTTL)
}

// seconds returns d as a TTL.
func seconds(d time.Duration) uint32 { return uint32(min(d/time.Second, maxTTL)) }

// store replaces the entry of k by e, or adds e. It reports whether it did. A failure does not
// replace a reply that is fresh or stale, and a reply of an old generation is not stored.
func (c *Cache) store(k key, e *entry, now time.Time, options PutOptions) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if options.Generation != c.generation {
		return false
	}
	old := c.lookup(k, e.hash)
	if old != nil && e.kind == failure && old.kind != failure && now.Sub(old.stored) < old.retention {
		old.recordFailure(now, options)
		return false
	}
	c.replaceLocked(old, e, now)
	return true
}

// keepDenied keeps the entry of k if the reply denies what it says: as a stale one, until LastKnownGood after
// the first denial. It returns nil if there is nothing to keep.
func (c *Cache) keepDenied(k key, hash uint64, reply *dns.Msg, s *scrubbed, now time.Time, options PutOptions) *entry {
	if options.LastKnownGood == 0 || options.Discard || !denies(reply, s) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lookup(k, hash)
	if e == nil || options.Generation != c.generation || now.Sub(e.stored) >= e.retention || !e.outranks(reply.Rcode) {
		return nil
	}
	if e.denied {
		e.recordFailure(now, options)
		return e
	}
	kept := &entry{
		hash: hash, wire: e.wire, ttls: e.ttls, paths: e.paths, questionEnd: e.questionEnd, addresses: e.addresses,
		bits: e.bits, kind: e.kind, denied: true, stored: now, retention: options.LastKnownGood,
	}
	kept.recordFailure(now, options)
	c.replaceLocked(e, kept, now)
	return kept
}

// replaceLocked adds e, and removes the entry of the same question if old is not nil.
func (c *Cache) replaceLocked(old, e *entry, now time.Time) {
	if old != nil {
		e.hits.Store(old.hits.Load()) // the question was hit, not the old reply
		c.removeLocked(old)
	}
	c.evictLocked(e.size(), now)
	if e.older = c.queue.newest; e.older != nil {
		e.older.newer = e
	} else {
		c.queue.oldest = e
	}
	c.queue.newest = e
	c.entries.Add(1)
	c.bytes.Add(int64(e.size()))
	first := c.bucket(e.hash)
	e.next.Store(first.Load())
	first.Store(e) // before the old one is unlinked: readers see one of them
	if old != nil {
		c.unlinkLocked(old)
	}
}

// unlinkLocked removes e from its bucket. Concurrent readers at e still find its successors.
func (c *Cache) unlinkLocked(e *entry) {
	at := c.bucket(e.hash)
	for at.Load() != e {
		at = &at.Load().next
	}
	at.Store(e.next.Load())
}

// Clear removes all entries, begins a generation and returns it. It must be called for a change of
// upstream servers: the new ones may answer differently.
func (c *Cache) Clear() Generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queue.oldest != nil {
		e := c.queue.oldest
		c.removeLocked(e)
		c.unlinkLocked(e)
	}
	c.generation++
	return c.generation
}

// Stats are the figures of a cache for metrics.
type Stats struct {
	Entries   int
	Bytes     int    // as bounded by Config.MaxBytes
	Evictions uint64 // since New, entries evicted for others
}

// Stats returns the current figures.
func (c *Cache) Stats() Stats {
	return Stats{Entries: int(c.entries.Load()), Bytes: int(c.bytes.Load()), Evictions: c.evictions.Load()}
}
