// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"sync"
	"time"
)

// clusterRetryInterval is how long a stale answer for a name of the cluster is used after a
// failed renewal, and how long a failure for such a name is cached. The addresses of a Service may
// change within seconds, and the cluster DNS server answers within milliseconds: a retry costs
// little. A query that is lost just before the server replies again fails after the timeout of a try,
// about 2 s, and is retried after this interval. So all names are current within 5 s.
const clusterRetryInterval = 2 * time.Second

// outageDetector detects the end of an outage: servers reply again after a time without replies. A
// stale answer whose renewal failed before that is then renewed at once, instead of after its retry
// interval.
//
// A query without a reply is part of an outage only if no other query got a reply meanwhile. So
// a name whose own servers are dead keeps its retry interval while other names are answered.
type outageDetector struct {
	mu        sync.Mutex
	lastReply time.Time
	ongoing   bool
	ended     time.Time // of the last outage
}

// recordReply records that the servers replied to a query, with any rcode.
func (o *outageDetector) recordReply(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ongoing {
		o.ongoing, o.ended = false, now
	}
	o.lastReply = now
}

// recordFailure records that the servers did not reply to a query that was sent at begin.
func (o *outageDetector) recordFailure(begin time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastReply.Before(begin) {
		o.ongoing = true
	}
}

// endedAfter reports whether an outage ended after t.
func (o *outageDetector) endedAfter(t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended.After(t)
}
