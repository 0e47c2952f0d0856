// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// maxSubqueries is the largest number of queries for names outside the cluster zone that one
// expansion causes: one of type A for each of MaxHostSuffixes and for the bare name, and one of
// another type for the name that is found (see lookupTypes). More are refused. More are needed only
// if candidates exist without A records, or for a type such as MX of a name that has only AAAA
// records.
const maxSubqueries = MaxHostSuffixes + 2

// MinSearchBurst is the smallest Limits.SearchBurst: one expansion.
const MinSearchBurst = maxSubqueries

// The defaults of Limits.SearchRate and Limits.SearchBurst. A rate of 1000 suffices for a node with
// 100 pods, each of which looks up ten uncached names a second with one query each.
const (
	DefaultSearchRate  = 1000
	DefaultSearchBurst = 2000
)

// maxRateClients is the largest number of clients with a bucket of their own: twice the nodes of
// the largest cluster that Kubernetes supports. That many buckets take 1 MB of memory.
const maxRateClients = 10_000

// subqueryRate limits the queries to other servers that the search lists of each client cause, by
// a token bucket for each client. A client without a bucket has a full one. If there are
// maxRateClients buckets, the full ones are removed. If none is full, further clients share the
// bucket of the zero Addr.
type subqueryRate struct {
	rate  float64 // tokens that a bucket gets per second
	burst float64 // tokens in a full bucket

	mu      sync.Mutex
	buckets map[netip.Addr]bucket
	sweptAt time.Time // when full buckets were last removed
}

// bucket holds the tokens that a client had at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

func newSubqueryRate(rate, burst int) *subqueryRate {
	return &subqueryRate{rate: float64(rate), burst: float64(burst), buckets: map[netip.Addr]bucket{}}
}

// removeToken removes a token from the bucket of the client. It reports whether there was one.
func (r *subqueryRate) removeToken(client netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	client = r.bucketOf(client, now)
	tokens := r.tokens(client, now)
	if tokens < 1 {
		return false
	}
	r.buckets[client] = bucket{tokens - 1, now}
	return true
}

// exhausted reports whether the client has no token.
func (r *subqueryRate) exhausted(client netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return r.tokens(r.bucketOf(client, now), now) < 1
}

// tokens returns the number of tokens in the bucket of a client.
func (r *subqueryRate) tokens(client netip.Addr, now time.Time) float64 {
	b, ok := r.buckets[client]
	if !ok {
		return r.burst
	}
	return min(r.burst, b.tokens+now.Sub(b.at).Seconds()*r.rate)
}

// bucketOf returns the key of the bucket that a client uses: its address, or the zero Addr if there
// are too many buckets.
func (r *subqueryRate) bucketOf(client netip.Addr, now time.Time) netip.Addr {
	client = clientKey(client)
	if _, ok := r.buckets[client]; ok || len(r.buckets) < maxRateClients {
		return client
	}
	if now.Sub(r.sweptAt) >= time.Second { // a sweep visits all buckets: not for each forged address
		r.sweptAt = now
		maps.DeleteFunc(r.buckets, func(c netip.Addr, _ bucket) bool { return r.tokens(c, now) >= r.burst })
	}
	if len(r.buckets) < maxRateClients {
		return client
	}
	return netip.Addr{}
}
