// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Question is a query on the wire.
type Question struct {
	Name    string // absolute, in the case of the query
	Type    uint16
	Payload uint16 // of EDNS; 0: none
	TCP     bool
}

// Lower returns the name as servers compare it.
func (q Question) Lower() string { return dns.CanonicalName(q.Name) }

func (q Question) String() string {
	s := fmt.Sprintf("%s %s", q.Name, dns.TypeToString[q.Type])
	if dns.TypeToString[q.Type] == "" {
		s += fmt.Sprintf("TYPE%d", q.Type)
	}
	if q.Payload > 0 {
		s += fmt.Sprintf(" edns=%d", q.Payload)
	}
	if q.TCP {
		s += " tcp"
	}
	return s
}

// Reply is the part of a reply on which two servers must agree: not the order of records,
// the weights of SRV records, the serial of a zone, or the TTL of external records.
type Reply struct {
	Silent        bool // no reply
	Rcode         int
	Authoritative bool
	Answer        []string
	SOA           string // owner of the SOA record in the authority section
	Extra         []string
}

// Normal returns the normalized reply m to q. The owner of a record is "@" if it is the
// name of the question in the same case.
func Normal(q Question, m *dns.Msg) Reply {
	if m == nil {
		return Reply{Silent: true}
	}
	r := Reply{Rcode: m.Rcode, Authoritative: m.Authoritative}
	if m.Rcode == dns.RcodeServerFailure {
		return Reply{Rcode: m.Rcode} // the rest is undefined
	}
	for _, rr := range m.Answer {
		r.Answer = append(r.Answer, text(q, rr, m.Authoritative))
	}
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeSOA {
			r.SOA = dns.CanonicalName(rr.Header().Name)
			if dns.IsSubDomain("arpa.", r.SOA) {
				r.SOA = "arpa." // a server may choose the zones of reverse names
			}
		}
	}
	for _, rr := range m.Extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			r.Extra = append(r.Extra, text(Question{}, rr, m.Authoritative))
		}
	}
	slices.Sort(r.Answer)
	slices.Sort(r.Extra)
	return r
}

// text returns rr in the form of a zone file, with the TTL only if the server sets it.
func text(q Question, rr dns.RR, authoritative bool) string {
	h := rr.Header()
	owner := dns.CanonicalName(h.Name)
	ttl := "-"
	if authoritative && (dns.IsSubDomain("cluster.local.", owner) || dns.IsSubDomain("arpa.", owner)) {
		ttl = fmt.Sprint(h.Ttl)
	}
	if h.Name == q.Name {
		owner = "@"
	}
	var data string
	switch rr := rr.(type) {
	case *dns.SRV:
		data = fmt.Sprintf("%d %s", rr.Port, rr.Target)
	case *dns.SOA:
		data = rr.Ns + " " + rr.Mbox
	default:
		data = strings.TrimPrefix(rr.String(), h.String())
	}
	return fmt.Sprintf("%s %s %s %s", owner, ttl, dns.TypeToString[h.Rrtype], strings.ToLower(data))
}

// Equal reports whether r and other are equal.
func (r Reply) Equal(other Reply) bool {
	return r.Silent == other.Silent && r.Rcode == other.Rcode && r.Authoritative == other.Authoritative && r.SOA == other.SOA &&
		slices.Equal(r.Answer, other.Answer) && slices.Equal(r.Extra, other.Extra)
}

// Agree reports whether got is a right reply to q if want is one. The addresses of SRV
// and NS targets may be omitted from a datagram if they do not fit (RFC 2181 section 9).
func Agree(q Question, want, got *dns.Msg) bool {
	w, g := Normal(q, want), Normal(q, got)
	missing := func(s string) bool { return !slices.Contains(w.Extra, s) }
	if !q.TCP && want.Len() > q.room() && !slices.ContainsFunc(g.Extra, missing) {
		g.Extra = w.Extra
	}
	return g.Equal(w)
}

// maxDatagram is the limit for all clients (RFC 9715).
const maxDatagram = 1232

// room is the size of the longest reply over UDP.
func (q Question) room() int { return min(max(dns.MinMsgSize, int(q.Payload)), maxDatagram) }

func (r Reply) String() string {
	if r.Silent {
		return "no reply"
	}
	var b strings.Builder
	b.WriteString(dns.RcodeToString[r.Rcode])
	if r.Authoritative {
		b.WriteString(" aa")
	}
	if r.SOA != "" {
		b.WriteString(" SOA of " + r.SOA)
	}
	for _, s := range r.Answer {
		b.WriteString("\n      " + s)
	}
	for _, s := range r.Extra {
		b.WriteString("\n      + " + s)
	}
	return b.String()
}
