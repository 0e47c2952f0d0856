// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// world is the script of the servers. It is a value: equal queries get equal replies.
type world struct {
	seed    uint64
	manners []manner          // of names, with equal probability
	moods   map[string]manner // of servers; "": by name
}

// manner is the kind of a reply.
type manner string

const (
	both        manner = "both"      // addresses of both families
	v4          manner = "v4"        // IPv4 alone
	v6          manner = "v6"        // IPv6 alone
	alias       manner = "alias"     // an alias of a name with both
	badAlias    manner = "badalias"  // an alias of a name that is not a hostname
	dangling    manner = "dangling"  // an alias of a name without addresses
	otherName   manner = "othername" // addresses of another name
	nodata      manner = "nodata"
	nxdomain    manner = "nxdomain"
	servfail    manner = "servfail"
	refused     manner = "refused"
	notimp      manner = "notimp"
	formerr     manner = "formerr"
	lame        manner = "lame"      // an empty reply without recursion
	silent      manner = "silent"    // no reply
	cut         manner = "cut"       // truncated over UDP
	halfFail    manner = "halffail"  // SERVFAIL for AAAA
	otherFail   manner = "otherfail" // SERVFAIL for A
	v4Fail      manner = "v4fail"    // IPv4 alone, and SERVFAIL for A
	halfSilent  manner = "halfsilent"
	otherSilent manner = "othersilent"
	halfGone    manner = "halfgone" // NXDOMAIN for AAAA
	otherGone   manner = "othergone"
	halfCut     manner = "halfcut" // AAAA truncated
	halfLame    manner = "halflame"
	cutFail     manner = "cutfail" // truncated over UDP, SERVFAIL over TCP
)

// of returns the manner of a question.
func (w world) of(server, name string) manner {
	if m := w.moods[server]; m != "" {
		return m
	}
	h := fnv.New64a()
	h.Write([]byte(strings.ToLower(name)))
	return pickOne(rand.New(rand.NewPCG(w.seed, h.Sum64())), w.manners)
}

func pickOne[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// fails reports whether a server may fail, so that musl repeats the query.
func (w world) fails() bool {
	return slices.ContainsFunc(w.manners, func(m manner) bool { return strings.Contains(string(m), "fail") })
}

// reply returns the reply of a server, nil for none.
func (w world) reply(server string, q *dns.Msg, tcp bool) *dns.Msg {
	question := q.Question[0]
	r := new(dns.Msg)
	r.SetReply(q)
	r.RecursionAvailable, r.Compress = true, true
	isA := question.Qtype == dns.TypeA
	isAAAA := question.Qtype == dns.TypeAAAA

	m := w.of(server, question.Name)
	switch {
	case m == halfFail && isAAAA, m == otherFail && isA, m == v4Fail && isA:
		m = servfail
	case m == halfSilent && isAAAA, m == otherSilent && isA:
		m = silent
	case m == halfGone && isAAAA, m == otherGone && isA:
		m = nxdomain
	case m == halfCut && isAAAA, m == cutFail && !tcp:
		m = cut
	case m == halfLame && isAAAA:
		m = lame
	case m == cutFail && tcp:
		m = servfail
	}
	switch m {
	case silent:
		return nil
	case nxdomain:
		r.Rcode = dns.RcodeNameError
	case servfail:
		r.Rcode = dns.RcodeServerFailure
	case refused:
		r.Rcode = dns.RcodeRefused
	case notimp:
		r.Rcode = dns.RcodeNotImplemented
	case formerr:
		r.Rcode = dns.RcodeFormatError
	case lame:
		r.RecursionAvailable = false
	case nodata:
	case cut:
		if !tcp {
			r.Truncated = true
			return r
		}
		r.Answer = data(question, question.Name, both)
	case alias:
		r.Answer = append([]dns.RR{cname(question.Name, "there.example.")}, data(question, "there.example.", both)...)
	case badAlias:
		r.Answer = append([]dns.RR{cname(question.Name, "not*host.example.")}, data(question, "not*host.example.", both)...)
	case dangling:
		r.Answer = []dns.RR{cname(question.Name, "nowhere.example.")}
	case otherName:
		r.Answer = data(question, "there.example.", both)
	default:
		r.Answer = data(question, question.Name, m)
	}
	return r
}

func cname(owner, target string) dns.RR {
	return &dns.CNAME{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 5}, Target: target}
}

// data returns the records of a name: two addresses of each of its families.
func data(q dns.Question, owner string, m manner) (list []dns.RR) {
	h := dns.RR_Header{Name: owner, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 5}
	switch {
	case q.Qtype == dns.TypeA && m != v6:
		for _, a := range []string{"192.0.2.1", "192.0.2.2"} {
			list = append(list, &dns.A{Hdr: h, A: net.ParseIP(a)})
		}
	case q.Qtype == dns.TypeAAAA && m != v4 && m != v4Fail:
		for _, a := range []string{"2001:db8::1", "2001:db8::2"} {
			list = append(list, &dns.AAAA{Hdr: h, AAAA: net.ParseIP(a)})
		}
	case q.Qtype == dns.TypeTXT && m == both:
		list = append(list, &dns.TXT{Hdr: h, Txt: []string{"hello"}})
	}
	return list
}

// exchange is the network of a simulator.
func (w world) exchange(ctx context.Context, server netip.Addr, q *dns.Msg, tcp bool) (*dns.Msg, error) {
	if !slices.Contains(listening, server.String()) {
		return nil, errors.New("connection refused")
	}
	wire, err := q.Pack() // as the servers receive it
	if err != nil {
		return nil, err
	}
	if err := q.Unpack(wire); err != nil {
		return nil, err
	}
	if r := w.reply(server.String(), q, tcp); r != nil {
		return r, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
