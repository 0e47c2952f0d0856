// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// errUnreachable is the error of an upstream server that does not reply.
var errUnreachable = errors.New("host unreachable")

// unreachable is an upstream server that does not reply.
func unreachable(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, errUnreachable }

// recordSet is the records of an upstream server.
type recordSet []dns.RR

// parseRecords parses the lines of a zone file.
func parseRecords(t testing.TB, lines string) recordSet {
	t.Helper()
	var list recordSet
	for p := dns.NewZoneParser(strings.NewReader(lines), ".", ""); ; {
		rr, ok := p.Next()
		if !ok {
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			return list
		}
		list = append(list, rr)
	}
}

// exchange replies with all records of the name and of its aliases' targets, or with NXDOMAIN
// and an SOA record of example or of the root. Names in dead.example are not answered.
func (s recordSet) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	question := q.Question[0]
	if strings.HasSuffix(question.Name, "dead.example.") {
		return nil, errUnreachable
	}
	exists, zone := false, "."
	for owner := question.Name; owner != ""; {
		next := ""
		if zone = "."; dns.IsSubDomain("example.", owner) {
			zone = "example."
		}
		for _, rr := range s {
			h := rr.Header()
			if !strings.EqualFold(h.Name, owner) {
				continue
			}
			exists = true
			if cname, ok := rr.(*dns.CNAME); ok && question.Qtype != dns.TypeCNAME {
				next = cname.Target
			} else if h.Rrtype != question.Qtype {
				continue
			}
			m.Answer = append(m.Answer, rr)
		}
		owner = next
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		soa, err := dns.NewRR(zone + " 60 IN SOA ns.example. admin.example. 1 2 3 4 60")
		if err != nil {
			return nil, err
		}
		m.Ns = []dns.RR{soa}
	}
	return m, nil
}

// stubUpstream is an upstream server whose behaviour the test sets. The TTL of its records is
// 100, and their last number is the number of the query.
type stubUpstream struct {
	rcode   int
	err     error
	blocked chan struct{} // not nil: no reply until it is closed
	queries atomic.Int32
}

func (u *stubUpstream) exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	n := u.queries.Add(1)
	if u.blocked != nil {
		select {
		case <-u.blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if u.err != nil {
		return nil, u.err
	}
	m := new(dns.Msg).SetRcode(q, u.rcode)
	var err error
	switch u.rcode {
	case dns.RcodeSuccess:
		m.Answer = make([]dns.RR, 1)
		m.Answer[0], err = dns.NewRR(fmt.Sprintf("%s 100 IN A 192.0.2.%d", q.Question[0].Name, n))
	case dns.RcodeNameError:
		m.Ns = make([]dns.RR, 1)
		m.Ns[0], err = dns.NewRR(fmt.Sprintf("example. 100 IN SOA ns.example. admin.example. %d 2 3 4 100", n))
	}
	return m, err
}
