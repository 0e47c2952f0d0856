// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Limits of a replyCache.
const (
	// replyCacheTime is how long a reply is cached. Then it is built again, so that clients of
	// an RRset that does not fit into a reply do not always get the same part of it.
	replyCacheTime = time.Second

	// minCachedReply is the length of the shortest reply that is cached, in octets. Building a
	// shorter one costs less than the TCP connection of the query.
	minCachedReply = 4 << 10

	// maxReplyCache is the sum of the lengths of the cached replies, in octets: 64 replies of
	// the largest length.
	maxReplyCache = 4 << 20
)

// replyCache caches the long replies over TCP with records of the zone, so that a client that
// repeats its query does not make the server build 64 kB again. A cached reply is not used after a
// change of its Service. The zero value is empty.
type replyCache struct {
	mu      sync.Mutex
	length  int // of all replies, in octets
	replies map[replyKey]cachedReply
}

type replyKey struct {
	name  fqdn.Name
	qtype uint16
	edns  bool // an OPT record leaves less room
}

type cachedReply struct {
	wire    []byte // without OPT record
	partial bool   // it has only a part of the RRset
	version uint64 // of the Service, see zone.Node.Version
	built   time.Time
}

// get returns the reply to q, or nil if none is cached. The records are rotated, except SRV
// records: their clients choose by weight (RFC 2782). partial reports whether some records are
// missing.
func (c *replyCache) get(q *query, version uint64) (b []byte, partial bool) {
	c.mu.Lock()
	cached, ok := c.replies[replyKey{q.name, q.qtype, q.edns}]
	c.mu.Unlock()
	if !ok || cached.version != version || q.received.Sub(cached.built) >= replyCacheTime {
		return nil, false
	}
	b = q.startReply(make([]byte, 0, len(cached.wire)+q.optLen(&answer{})), flagAA, dns.RcodeSuccess)
	copy(b[6:headerLen], cached.wire[6:]) // the counts
	records := cached.wire[len(b):]
	if q.qtype != dns.TypeSRV { // records of equal length
		n := int(binary.BigEndian.Uint16(b[6:]))
		first := rand.IntN(n) * (len(records) / n)
		b, records = append(b, records[first:]...), records[:first]
	}
	return append(b, records...), cached.partial
}

// put caches the reply to q if it is long and the cache has room. A zone.Node without a Service has
// the version 0. Its reply is not cached, because its changes could not be detected.
func (c *replyCache) put(q *query, version uint64, wire []byte, partial bool) {
	if version == 0 || len(wire) < minCachedReply {
		return
	}
	key := replyKey{fqdn.Name(strings.Clone(string(q.name))), q.qtype, q.edns}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length -= len(c.replies[key].wire)
	delete(c.replies, key)
	if c.length+len(wire) > maxReplyCache {
		maps.DeleteFunc(c.replies, func(_ replyKey, cached cachedReply) bool {
			expired := q.received.Sub(cached.built) >= replyCacheTime
			if expired {
				c.length -= len(cached.wire)
			}
			return expired
		})
	}
	if c.length+len(wire) > maxReplyCache {
		return
	}
	if c.replies == nil {
		c.replies = map[replyKey]cachedReply{}
	}
	c.length += len(wire)
	c.replies[key] = cachedReply{bytes.Clone(wire), partial, version, q.received}
}
