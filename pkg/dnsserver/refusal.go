// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
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
	numRefusals
)

// String returns the reason as a label of metrics. The labels of refusedLimit and refusedSubqueries are
// older than the constants, and stay for existing alerts.
func (r refusalReason) String() string {
	return [...]string{"not_refused", "budget", "loop", "no_servers", "recursion", "questions", "replaced", "upstream", "resources"}[r]
}

// allowsFallback reports whether a client that can try the candidates of a search list itself
// should do so after a refusal. After refusedSubqueries it should not: a node cache has the same
// maxSubqueries, and would stop there as well.
func (r refusalReason) allowsFallback() bool { return r != notRefused && r != refusedSubqueries }

// Error returns the text for clients.
func (r refusalReason) Error() string {
	return [...]string{
		"", "too many queries are waiting for other servers",
		"the upstream servers send queries back to this server", "no upstream server is known", "recursion is not desired",
		"the search list needs too many queries",
		"no reply yet, and too many queries are waiting for other servers",
		"the server that was asked is at a limit", "no file descriptor or memory for a query",
	}[r]
}

// extendedLimit is the extended error of a query refused at a limit that does not depend on its
// name. A node cache does not cache such a reply from the cluster DNS: all pods of a node are one
// client there, and one pod may use up the share. In replies of other servers the code is ignored:
// the owner of a zone could use it to prevent the caching of failures. The code is for private use
// (RFC 8914 section 5.2). That it equals autopath.DefaultOption has no meaning: info codes and option
// codes are in different registries.
const extendedLimit = 65313

// isLimitFailure reports whether the reply is that of a server of this package to a query that it
// refused at a limit.
func isLimitFailure(reply *dns.Msg) bool {
	opt := reply.IsEdns0()
	return opt != nil && reply.Rcode == dns.RcodeServerFailure && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		e, ok := o.(*dns.EDNS0_EDE)
		return ok && e.InfoCode == extendedLimit
	})
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
	code := dns.ExtendedErrorCodeOther
	switch r {
	case refusedLimit, refusedReplaced, refusedUpstream, refusedResources:
		code = extendedLimit
	case refusedNoServers, refusedLoop:
		code = dns.ExtendedErrorCodeNoReachableAuthority
	case refusedRecursion: // RFC 8914 section 4.21
		code = dns.ExtendedErrorCodeNotAuthoritative
	}
	a := failure(fromServer, code, r.Error())
	a.refused = r
	if r == refusedRecursion {
		a.rcode = dns.RcodeRefused
	}
	return a
}
