// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// QueryLog selects the queries that are logged, and formats a line for each when its reply is sent. It must not be
// changed after SetQueryLog.
type QueryLog struct {
	Classes LogClass    // of the replies; 0: none
	Zones   []fqdn.Name // of the names; empty: all names
	JSON    bool        // the lines are JSON objects

	// Write writes lines, each with its newline. It must not block, and must not keep them. It is called concurrently.
	Write func(lines []byte)
}

// LogClass is a set of kinds of replies.
type LogClass uint8

// The kinds of replies. CoreDNS has the same, save that it takes NODATA without an SOA record for a success, and
// NXDOMAIN without one for an error.
const (
	LogSuccess LogClass = 1 << iota // NOERROR with an answer
	LogDenial                       // NXDOMAIN and NODATA
	LogError                        // all other rcodes
)

// LogAll has all kinds of replies.
const LogAll = LogSuccess | LogDenial | LogError

// SetQueryLog replaces the log of queries. nil: no query is logged. It is safe for concurrent use.
func (s *Server) SetQueryLog(l *QueryLog) { s.queryLog.Store(l) }

// append appends the line of a query with its reply, or nothing if it is not selected.
func (l *QueryLog) append(b []byte, q *query, r *reply) []byte {
	isIn := func(zone fqdn.Name) bool {
		_, ok := q.name.Within(zone)
		return ok
	}
	switch {
	case q.qtype == dns.TypeHINFO && r.source == fromServer: // a probe, several a second: see Config.AnswerProbe
	case l.Classes&classOf(r) == 0:
	case len(l.Zones) > 0 && !slices.ContainsFunc(l.Zones, isIn):
	case l.JSON:
		return appendJSONLine(b, q, r)
	default:
		return appendTextLine(b, q, r)
	}
	return b
}

// classOf returns the kind of a reply.
func classOf(r *reply) LogClass {
	flags, answers := binary.BigEndian.Uint16(r.wire[2:]), binary.BigEndian.Uint16(r.wire[6:])
	switch {
	case r.rcode == dns.RcodeNameError, r.rcode == dns.RcodeSuccess && answers == 0 && flags&flagTC == 0:
		return LogDenial
	case r.rcode == dns.RcodeSuccess:
		return LogSuccess
	}
	return LogError
}

// appendTextLine appends the time, a line in CoreDNS's format {common}, for the programs that read it, and the source of
// the answer:
//
//	TIME CLIENT:PORT - ID "TYPE CLASS NAME PROTOCOL SIZE DO BUFSIZE" RCODE FLAGS SIZE DURATION SOURCE
//
// BUFSIZE is the length of the longest reply that the client accepts and the server sends.
func appendTextLine(b []byte, q *query, r *reply) []byte {
	b = append(appendTime(b, q.received), ' ')
	b = append(netip.AddrPortFrom(q.client, q.port).AppendTo(b), " - "...)
	b = append(strconv.AppendUint(b, uint64(q.id), 10), ` "`...)
	b = append(appendCode(b, dns.TypeToString, "TYPE", int(q.qtype)), ' ')
	b = append(appendCode(b, dns.ClassToString, "CLASS", q.class()), ' ')
	b = append(appendLogName(b, q.name, `\`), ' ')
	b = append(append(b, q.via.String()...), ' ')
	b = append(strconv.AppendInt(b, int64(q.size), 10), ' ')
	b = append(strconv.AppendBool(b, q.do), ' ')
	b = append(strconv.AppendInt(b, int64(q.maxReply), 10), `" `...)
	b = append(appendCode(b, dns.RcodeToString, "RCODE", r.rcode), ' ')
	b = append(appendFlags(b, r), ' ')
	b = append(strconv.AppendInt(b, int64(len(r.wire)), 10), ' ')
	b = append(appendSeconds(b, time.Since(q.received)), "s "...)
	return append(append(b, r.source.String()...), '\n')
}

// appendJSONLine appends an object with the same values. All texts are without characters that JSON escapes, except the
// name.
func appendJSONLine(b []byte, q *query, r *reply) []byte {
	b = appendTime(append(b, `{"time":"`...), q.received)
	b = q.client.AppendTo(append(b, `","client":"`...))
	b = strconv.AppendUint(append(b, `","port":`...), uint64(q.port), 10)
	b = strconv.AppendUint(append(b, `,"id":`...), uint64(q.id), 10)
	b = appendCode(append(b, `,"type":"`...), dns.TypeToString, "TYPE", int(q.qtype))
	b = appendCode(append(b, `","class":"`...), dns.ClassToString, "CLASS", q.class())
	b = appendLogName(append(b, `","name":"`...), q.name, `\\`)
	b = append(append(b, `","protocol":"`...), q.via.String()...)
	b = strconv.AppendInt(append(b, `","size":`...), int64(q.size), 10)
	b = strconv.AppendBool(append(b, `,"do":`...), q.do)
	b = strconv.AppendInt(append(b, `,"bufsize":`...), int64(q.maxReply), 10)
	b = appendCode(append(b, `,"rcode":"`...), dns.RcodeToString, "RCODE", r.rcode)
	b = appendFlags(append(b, `","flags":"`...), r)
	b = strconv.AppendInt(append(b, `","replySize":`...), int64(len(r.wire)), 10)
	b = appendSeconds(append(b, `,"seconds":`...), time.Since(q.received))
	return append(append(append(b, `,"source":"`...), r.source.String()...), "\"}\n"...)
}

// appendTime appends a time in UTC with microseconds. Package time formats RFC3339 in a third of the time of a layout
// with microseconds.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.'
	return append(appendDigits(b, t.Nanosecond()/1000, 6), 'Z')
}

// appendSeconds appends a duration in seconds, in a third of the time of strconv.AppendFloat.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = append(strconv.AppendInt(b, int64(d/time.Second), 10), '.')
	return appendDigits(b, int(d%time.Second), 9)
}

// appendDigits appends a number with leading zeros.
func appendDigits(b []byte, n, width int) []byte {
	b = append(b, "000000000"[:width]...)
	for i := len(b) - 1; n > 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return b
}

// class returns the class of the question; 0: it is not parsed.
func (q *query) class() int {
	if q.question == nil {
		return 0
	}
	return int(binary.BigEndian.Uint16(q.question[len(q.question)-2:]))
}

// appendCode appends the name of a code, or prefix and the number.
func appendCode[K uint16 | int](b []byte, names map[K]string, prefix string, code int) []byte {
	if name := names[K(code)]; name != "" {
		return append(b, name...)
	}
	return strconv.AppendInt(append(b, prefix...), int64(code), 10)
}

// appendLogName appends a name in presentation format with the final dot, or "-" for a question that is not parsed. A
// client chooses the octets: each that is not printable, or a blank, a quote, a dot or a backslash, is a backslash with
// three digits (RFC 1035 section 5.1), so that it cannot end the name or the line.
func appendLogName(b []byte, name fqdn.Name, backslash string) []byte {
	switch name {
	case "":
		return append(b, '-')
	case fqdn.Root:
		return append(b, '.')
	}
	for ; name[0] != 0; name = name[1+name[0]:] {
		for _, c := range []byte(name[1 : 1+name[0]]) {
			if c > ' ' && c <= '~' && c != '"' && c != '.' && c != '\\' {
				b = append(b, c)
				continue
			}
			b = append(append(b, backslash...), '0'+c/100, '0'+c/10%10, '0'+c%10)
		}
		b = append(b, '.')
	}
	return b
}

// appendFlags appends the flags of a reply, such as qr,aa,rd,ra.
func appendFlags(b []byte, r *reply) []byte {
	flags := binary.BigEndian.Uint16(r.wire[2:])
	b = append(b, "qr"...)
	for _, f := range [...]struct {
		flag uint16
		name string
	}{{flagAA, ",aa"}, {flagTC, ",tc"}, {flagRD, ",rd"}, {flagRA, ",ra"}, {flagAD, ",ad"}, {flagCD, ",cd"}} {
		if flags&f.flag != 0 {
			b = append(b, f.name...)
		}
	}
	return b
}
