// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// refusalReason is why a query was refused, which dnsconfigurer_dns_refusals_total counts: it was not
// sent to other servers, it lost its slot, or the cluster DNS refused it. The zero value means that the
// query was not refused. A refused query gets SERVFAIL, except that refusedRecursion gets REFUSED. This
// answer says nothing about the name, and is not cached.
type refusalReason uint8

const (
	notRefused        refusalReason = iota
	refusedLimit                    // no slot is free, and none may be replaced
	refusedLoop                     // all servers are in a forwarding loop
	refusedNoServers                // the list of servers is empty
	refusedRecursion                // the client did not set RD
	refusedSubqueries               // the search list needs too many queries
	refusedReplaced                 // the query had waited, and lost its slot to another one
	refusedUpstream                 // the server that was asked, such as the cluster DNS, refused the query at a limit
	refusedResources                // no file descriptor or memory for a socket
	refusedPaused                   // no reply, and this server was paused
	numRefusals
)

// refusals are the labels of metrics, the texts for clients and the codes of extended errors. The labels of refusedLimit
// and refusedSubqueries are older than the constants, and stay for existing alerts.
var refusals = [numRefusals]struct {
	label, text string
	code        uint16
}{
	notRefused:        {label: "not_refused"},
	refusedLimit:      {"budget", "too many queries are waiting for other servers", extendedLimit},
	refusedLoop:       {"loop", "the upstream servers send queries back to this server", dns.ExtendedErrorCodeNoReachableAuthority},
	refusedNoServers:  {"no_servers", "no upstream server is known", dns.ExtendedErrorCodeNoReachableAuthority},
	refusedRecursion:  {"recursion", "recursion is not desired", dns.ExtendedErrorCodeNotAuthoritative}, // RFC 8914 section 4.21
	refusedSubqueries: {"questions", "the search list needs too many queries", dns.ExtendedErrorCodeOther},
	refusedReplaced:   {"replaced", "no reply yet, and too many queries are waiting for other servers", extendedLimit},
	refusedUpstream:   {"upstream", "the server that was asked is at a limit", extendedLimit},
	refusedResources:  {"resources", "no file descriptor or memory for a query", extendedLimit},
	refusedPaused:     {"paused", "no reply, and this server was paused", extendedLimit},
}

func (r refusalReason) String() string { return refusals[r].label }

func (r refusalReason) Error() string { return refusals[r].text }

// allowsFallback reports whether a client that can try the candidates of a search list itself
// should do so after a refusal. After refusedSubqueries it should not: a node cache has the same
// maxSubqueries, and would stop there as well.
func (r refusalReason) allowsFallback() bool { return r != notRefused && r != refusedSubqueries }

// extendedLimit is the extended error of a query refused at a limit that does not depend on its name. A node cache
// does not cache such a reply from the cluster DNS: all pods of a node are one client there, and one pod may use up
// the share. In replies of other servers the code is ignored: the owner of a zone could use it to prevent the caching
// of failures. The code is for private use (RFC 8914 section 5.2). That it equals autopath.Option has no
// meaning: info codes and option codes are in different registries.
const extendedLimit = 65313

// isLimitFailure reports whether the reply is that of a server of this package to a query that it refused at a limit.
func isLimitFailure(reply *dns.Msg) bool {
	opt := reply.IsEdns0()
	return opt != nil && reply.Rcode == dns.RcodeServerFailure && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		e, ok := o.(*dns.EDNS0_EDE)
		return ok && e.InfoCode == extendedLimit
	})
}

// clientTimeout is how long the C libraries wait for the reply to a query before they send it again.
const clientTimeout = 5 * time.Second

// replyOverUDP is [query.reply], or nothing for a query that is dropped. Two failures are not sent to a client without an OPT
// record, such as a C library:
//
//   - A refusal at a limit: the client cannot read the reason. It would ask again at once, which makes matters worse,
//     and then give up. Without a reply it asks again after some seconds.
//   - A failure after clientTimeout: glibc would take it for the reply to its second try, which has the same ID, and
//     with a failure for A and NODATA for AAAA the lookup ends: the name has no address.
func (s *Server) replyOverUDP(q *query, a answer, buf []byte) reply {
	if a.dropped {
		s.metrics.dropped.Inc()
		return reply{}
	}
	if !q.edns && (refusals[a.refused].code == extendedLimit || a.failed() && time.Since(q.received) > clientTimeout) {
		return reply{}
	}
	return q.reply(a, buf)
}

// refusalOf returns the reason for an error of package upstream that means that no query was sent:
// ErrLoop, ErrNoServers or ErrNoResources. It returns notRefused for nil and for all other errors.
func refusalOf(err error) refusalReason {
	switch {
	case errors.Is(err, upstream.ErrLoop):
		return refusedLoop
	case errors.Is(err, upstream.ErrNoServers):
		return refusedNoServers
	case errors.Is(err, upstream.ErrNoResources):
		return refusedResources
	}
	return notRefused
}

// refuse counts a refused query and returns the answer.
func (s *Server) refuse(kind queryKind, r refusalReason) answer {
	s.metrics.refusals[kind][r].Inc()
	return refusedAnswer(r)
}

// refusedAnswer returns the answer to a query that was refused for r.
func refusedAnswer(r refusalReason) answer {
	a := failure(fromServer, refusals[r].code, r.Error())
	a.refused = r
	if r == refusedRecursion {
		a.rcode = dns.RcodeRefused
	}
	return a
}

// causes are why a query to other servers failed, as extended errors for clients. They do not contain the error of the
// Exchange, which discloses addresses of servers. The cache keeps the index with the failure: the first one is a
// server's reply with the rcode of an error, which says all that is known.
var causes = [...]*dns.EDNS0_EDE{
	nil,
	{InfoCode: dns.ExtendedErrorCodeNetworkError, ExtraText: "no upstream server answered"}, // or none was reached
	{InfoCode: dns.ExtendedErrorCodeNetworkError, ExtraText: "the upstream server's reply is malformed"},
}

// causeOf returns the index in causes for an error of an Exchange.
func causeOf(err error) uint8 {
	if errors.Is(err, upstream.ErrMalformed) {
		return 2
	}
	return 1
}

// clusterRetryInterval is how long a stale answer for a name of the cluster is used after a
// failed renewal, and how long a failure for such a name is cached. The addresses of a Service may
// change within seconds, and the cluster DNS server answers within milliseconds: a retry costs
// little. A query that is lost just before the server replies again fails after the timeout of a try,
// about 2 s, and is retried after this interval. So all names are current within 5 s.
const clusterRetryInterval = 2 * time.Second

// outageDetector detects the end of an outage: servers reply again after a time without replies. A stale answer whose
// renewal failed before that is then renewed at once, instead of after its retry interval.
//
// A query without a reply is part of an outage only if no other query got a reply meanwhile. So
// a name whose own servers are dead keeps its retry interval while other names are answered.
type outageDetector struct {
	zone fqdn.Name // of the servers, for the log

	mu        sync.Mutex
	lastReply time.Time
	ongoing   bool
	ended     time.Time // of the last outage
	deniedAt  time.Time // when a last known good answer replaced a denial
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

// recordDenied records that a last known good answer replaced a denial, and reports whether none has for logInterval.
func (o *outageDetector) recordDenied(now time.Time, logInterval time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isFirst := now.Sub(o.deniedAt) > logInterval
	o.deniedAt = now
	return isFirst
}

// endedAfter reports whether an outage ended after t.
func (o *outageDetector) endedAfter(t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended.After(t)
}
