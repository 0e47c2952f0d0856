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

// Limits of keptReplies.
const (
	// keptFor is how long a reply is kept. Of an RRset that does not fit, clients get
	// another part after that.
	keptFor = time.Second

	// minKeptLen is the length of the shortest reply that is kept, in octets. Shorter ones
	// take less time to build than the connection costs.
	minKeptLen = 4 << 10

	// maxKeptLen is the length of all replies that are kept, in octets: 64 of the longest.
	maxKeptLen = 4 << 20
)

// keptReplies are the long replies over TCP with records of the zone, so that a client that repeats
// its query does not make the server build 64 kB again. After a change of its Service a reply is
// not used, and it is replaced at the next query. The zero value is empty.
type keptReplies struct {
	mu      sync.Mutex
	length  int // of all replies
	replies map[keptKey]keptReply
}

type keptKey struct {
	name  fqdn.Name
	qtype uint16
	edns  bool // an OPT record leaves less room
}

type keptReply struct {
	wire    []byte // without OPT record
	cut     bool   // it has a part of the RRset
	version uint64 // of the Service
	built   time.Time
}

// reply returns a kept reply for q, or nil. The records are rotated, except SRV records: their
// clients choose by weight (RFC 2782).
func (k *keptReplies) reply(q *query, version uint64) (b []byte, cut bool) {
	k.mu.Lock()
	kept, ok := k.replies[keptKey{q.name, q.qtype, q.edns}]
	k.mu.Unlock()
	if !ok || kept.version != version || q.received.Sub(kept.built) >= keptFor {
		return nil, false
	}
	b = q.startReply(make([]byte, 0, len(kept.wire)+q.optLen(&answer{})), flagAA, dns.RcodeSuccess)
	copy(b[6:headerLen], kept.wire[6:]) // the counts
	records := kept.wire[len(b):]
	if q.qtype != dns.TypeSRV { // records of equal length
		n := int(binary.BigEndian.Uint16(b[6:]))
		first := rand.IntN(n) * (len(records) / n)
		b, records = append(b, records[first:]...), records[:first]
	}
	return append(b, records...), kept.cut
}

// keep keeps the reply to q if it is long and there is room. A version of 0 is not kept.
func (k *keptReplies) keep(q *query, version uint64, wire []byte, cut bool) {
	if version == 0 || len(wire) < minKeptLen {
		return
	}
	key := keptKey{fqdn.Name(strings.Clone(string(q.name))), q.qtype, q.edns}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.length -= len(k.replies[key].wire)
	delete(k.replies, key)
	if k.length+len(wire) > maxKeptLen {
		maps.DeleteFunc(k.replies, func(_ keptKey, kept keptReply) bool {
			expired := q.received.Sub(kept.built) >= keptFor
			if expired {
				k.length -= len(kept.wire)
			}
			return expired
		})
	}
	if k.length+len(wire) > maxKeptLen {
		return
	}
	if k.replies == nil {
		k.replies = map[keptKey]keptReply{}
	}
	k.length += len(wire)
	k.replies[key] = keptReply{bytes.Clone(wire), cut, version, q.received}
}
