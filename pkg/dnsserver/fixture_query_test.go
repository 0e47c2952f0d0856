// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// parseQuery returns the query for "NAME TYPE".
func parseQuery(question string, edns bool) *dns.Msg {
	name, qtype, _ := strings.Cut(question, " ")
	q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	if edns {
		q.SetEdns0(1232, false)
	}
	return q
}

// newQuery returns a query with EDNS0, and with each search list in a SearchPaths option.
func newQuery(name string, qtype uint16, searchLists ...string) *dns.Msg {
	q := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, false)
	for _, list := range searchLists {
		q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: autopath.Option, Data: []byte(list)})
	}
	return q
}

// mustPack returns the wire form of a message.
func mustPack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// replyText returns a reply as dig shows it, with addresses in sorted order: the server
// rotates them.
func replyText(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.AuthenticatedData, "ad"}, {isExpanded(m), "expanded"}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteString("\n")
	section := func(prefix string, records []dns.RR) {
		var lines []string
		for _, rr := range records {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
		if len(lines) > 1 && !strings.Contains(lines[0], " CNAME ") {
			slices.Sort(lines)
		}
		for _, line := range lines {
			b.WriteString(prefix + line + "\n")
		}
	}
	section("", m.Answer)
	section("authority: ", m.Ns)
	section("additional: ", m.Extra)
	return b.String()
}

// addresses returns the IPv4 addresses of a reply, "TC" included if it is truncated, or else
// its rcode.
func addresses(m *dns.Msg) string {
	var list []string
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			list = append(list, a.A.String())
		}
	}
	if m.Truncated {
		list = append(list, "TC")
	}
	if len(list) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(list, " ")
}

// extendedErrorsOf returns the extended errors of a reply (RFC 8914).
func extendedErrorsOf(m *dns.Msg) (list []*dns.EDNS0_EDE) {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				list = append(list, e)
			}
		}
	}
	return list
}

// extendedCode returns the code of a reply's first extended error, or -1.
func extendedCode(m *dns.Msg) int {
	if list := extendedErrorsOf(m); len(list) > 0 {
		return int(list[0].InfoCode)
	}
	return -1
}

// extendedErrors returns the codes and texts of the extended errors of a reply.
func extendedErrors(m *dns.Msg) string {
	var list []string
	for _, e := range extendedErrorsOf(m) {
		list = append(list, strings.TrimSpace(fmt.Sprint(e.InfoCode, " ", e.ExtraText)))
	}
	return strings.Join(list, ", ")
}

// isExpanded reports whether a reply has exactly one SearchPaths option, which is empty: the
// echo of a server that has expanded the search list.
func isExpanded(m *dns.Msg) bool {
	n := 0
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if local, ok := o.(*dns.EDNS0_LOCAL); ok && local.Code == autopath.Option && len(local.Data) == 0 {
				n++
			}
		}
	}
	return n == 1
}

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
			must.Succeed(t, p.Err())
			return list
		}
		list = append(list, rr)
	}
}

// exchange replies with all records of the name and of its aliases' targets, or with NXDOMAIN
// and an SOA record: that of the set, or one of example or of the root. Names in dead.example are not answered.
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
		for _, rr := range s {
			if rr.Header().Rrtype == dns.TypeSOA && dns.IsSubDomain(rr.Header().Name, question.Name) {
				soa = rr
			}
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
