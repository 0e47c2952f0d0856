// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"net/netip"
	"strconv"
	"strings"
)

// Resolver is the configuration that a C library reads from a resolv.conf, or that Go reads
// without one. [Glibc], [Musl] and [Go] return one with all defaults filled in. The zero value
// is not the configuration of any of them.
//
// Environment variables are not considered; glibc also reads LOCALDOMAIN and RES_OPTIONS.
type Resolver struct {
	// Nameservers holds one to three servers in the order of the file. If the file has no
	// valid server, it holds 127.0.0.1, and for Go ::1 as well. A zone is kept as written. If
	// its interface does not exist, glibc uses the address without the zone and musl ignores
	// the line.
	Nameservers []netip.Addr

	// Search holds the search domains as written, in order. If there are none, glibc
	// and Go search the domain of the host name, the part after its first dot, which is
	// not known here. musl searches none.
	Search []string

	// Ndots is the number of dots from which on a name is looked up as it is first, before
	// the search domains (glibc, Go) or instead of them (musl). It is 0 to 15; the default
	// is 1.
	Ndots int

	// Timeout is in seconds; the default is 5. For glibc it is the time to wait for the
	// first server, 1 to 30. For musl it is the time for one name with all servers and
	// attempts, 0 to 60; with 0 it sends no query. For Go it is the time to wait for
	// each server, 1 to 16,777,215.
	Timeout int

	// Attempts is the number of rounds over all servers; the default is 2. It is 0 to 5
	// for glibc, which sends no query with 0, 0 to 10 for musl, see Crashes, and 1 to
	// 16,777,215 for Go.
	Attempts int

	// Crashes reports whether every process crashes or hangs at its first lookup: glibc
	// without the fix of CVE-2026-8674 fails an assertion for certain lengths of search
	// domains, every glibc loops for ever on certain sortlist lines, and musl divides by
	// zero with 0 Attempts. One of the Remarks has the line, and which of these it is.
	Crashes bool

	// The flags of glibc, each false by default. musl has none of them. Go has EDNS0, which
	// is always true, Rotate, SingleRequest, NoReload, UseVC and TrustAD.
	Rotate              bool // start each query with another server
	EDNS0               bool // accept replies of more than 512 bytes
	SingleRequest       bool // send A and AAAA queries one after the other
	SingleRequestReopen bool // and use a new socket for the second
	NoTLDQuery          bool // do not look up a name without a dot as it is
	NoReload            bool // do not reload a changed file
	UseVC               bool // use TCP
	TrustAD             bool // set and keep the AD bit (since 2.31)
	NoAAAA              bool // send no AAAA query (since 2.36)

	// Remarks holds the lines and values that the library ignores or changes, except
	// comments and blank lines, in the order in which they were found.
	Remarks []Remark
}

// Remark is a line or a value that a C library ignores or changes.
type Remark struct {
	Entry
	Cause      Cause
	ReplacedBy int // the line whose value applies instead; 0 if there is none
}

// Cause is the cause of a Remark, in one sentence, which may change in any release.
type Cause string

const (
	causeUnknownKeyword Cause = "the line does not start with a keyword of this library" // or no white space follows it
	causeNoValue        Cause = "the keyword has no value"
	causeTrailingText   Cause = "text after the first value is ignored"
	causeInvalidAddress Cause = "not an address in a format of this library"
	causeInvalidZone    Cause = "the zone is not a valid interface" // glibc drops the zone, musl the line
	causeTooManyServers Cause = "only the first three nameservers are used"
	causeUnknownOption  Cause = "not an option of this library" // unknown, or not recognized in this position
	causeNoNumber       Cause = "not a number, treated as 0"    // glibc
	causeOutOfRange     Cause = "out of range, changed to another number"
	causeReplaced       Cause = "a later one wins"
	causeLineTooLong    Cause = "a line of more than 254 bytes is ignored" // musl
	causeNUL            Cause = "text after a NUL byte is ignored"
	causeNotModelled    Cause = "sortlist orders the addresses of a reply and is not shown"
	causeCrash          Cause = "every process that looks up a name crashes or hangs"
	causeAbort          Cause = "every process that looks up a name crashes, unless glibc has the fix of CVE-2026-8674"
	causeRootDomain     Cause = `the search domain "." is ignored`                    // Go
	causeBufferFull     Cause = "a line of 64 KiB is ignored, and all lines after it" // Go
)

// String describes the cause.
func (c Cause) String() string { return string(c) }

// The limits and defaults of both libraries.
const (
	maxServers      = 3  // MAXNS
	maxNdots        = 15 // glibc's struct __res_state has four bits for it
	defaultNdots    = 1
	defaultTimeout  = 5
	defaultAttempts = 2
)

// reading is a Resolver under construction. It has the entry of each value that a later line
// may replace; the line of a default is 0.
type reading struct {
	Resolver
	search, ndots, timeout, attempts Entry
}

func newReading() reading {
	return reading{Resolver: Resolver{Ndots: defaultNdots, Timeout: defaultTimeout, Attempts: defaultAttempts}}
}

// result returns the Resolver. The default server of both libraries is the host itself.
func (r *reading) result() Resolver {
	if len(r.Nameservers) == 0 {
		r.Nameservers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return r.Resolver
}

func (r *reading) remark(text string, line int, cause Cause) {
	r.Remarks = append(r.Remarks, Remark{Entry: Entry{strings.Trim(text, cSpace), line}, Cause: cause})
}

// ignore adds a remark for a line that the library ignores, unless the line is blank or a
// comment. Every library ignores these, even if it has no syntax for comments.
func (r *reading) ignore(s string, line int, cause Cause) {
	s = strings.Trim(s, cSpace)
	if s != "" && s[0] != '#' && s[0] != ';' {
		r.remark(s, line, cause)
	}
}

// trailing adds a remark for the text after the first value of a line.
func (r *reading) trailing(rest string, line int) {
	if rest != "" {
		r.remark(rest, line, causeTrailingText)
	}
}

// addServer adds the address of a nameserver line, unless there are three or it has a cause to be
// ignored.
func (r *reading) addServer(a netip.Addr, cause Cause, value, rest string, line int) {
	if len(r.Nameservers) == maxServers {
		cause = causeTooManyServers
	}
	if cause != "" {
		r.remark(value, line, cause)
		return
	}
	r.Nameservers = append(r.Nameservers, a)
	r.trailing(rest, line)
}

// crash adds a remark for the entry that makes every process crash.
func (r *reading) crash(e Entry, cause Cause) {
	r.Crashes = true
	r.remark(e.Text, e.Line, cause)
}

// replace sets *old to e and adds a remark for the entry that it replaces.
func (r *reading) replace(old *Entry, e Entry) {
	if old.Line != 0 {
		r.Remarks = append(r.Remarks, Remark{*old, causeReplaced, e.Line})
	}
	*old = e
}

// cSpace holds the white space of isspace(3) in the C locale. It has no bytes from 0x80 on.
const cSpace = " \t\n\v\f\r"

// ParseAddr parses an address as both C libraries do when a program passes one instead of a
// name to getaddrinfo(3). It accepts the formats of inet_aton(3), such as 127.1 and
// 0x7f000001, and IPv6 with an optional zone: a number or, for a link-local address, the name
// of an interface.
func ParseAddr(s string) (netip.Addr, bool) {
	if a, cause := parseAddr(s, isGlibcZone); cause == "" {
		return a, true
	}
	return netip.Addr{}, false
}

// parseAddr parses an address with an optional zone. The cause is causeInvalidAddress, or
// causeInvalidZone with the address that remains without the zone.
func parseAddr(s string, isZone func(zone string, linkLocal bool) bool) (netip.Addr, Cause) {
	if a, ok := aton(s); ok {
		return a, ""
	}
	address, zone, zoned := strings.Cut(s, "%")
	a, ok := pton6(address)
	switch {
	case !ok:
		return netip.Addr{}, causeInvalidAddress
	case zoned && !isZone(zone, isLinkLocal(a)):
		return a, causeInvalidZone
	case strings.Trim(zone, "0") == "": // the number 0 means none
		return a, ""
	}
	return a.WithZone(zone), ""
}

// aton parses s like inet_aton(3): one to four numbers, decimal, octal or hexadecimal. The
// last number fills the remaining bytes.
func aton(s string) (netip.Addr, bool) {
	parts := strings.SplitN(s, ".", 5)
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var word uint32
	for i, part := range parts {
		free, last := 32-8*i, i == len(parts)-1 // remaining bits
		size := 8
		if last {
			size = free
		}
		n, err := atonPart(part, size)
		if err != nil {
			return netip.Addr{}, false
		}
		word |= n << (free - size)
	}
	return netip.AddrFrom4([4]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)}), true
}

// atonPart parses s like strtoul(3) with base 0, but s must start with a digit and have
// nothing after the number.
func atonPart(s string, bits int) (uint32, error) {
	base := 10
	switch {
	case len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(s, base, bits) // takes no sign, and with a base no "_"
	return uint32(n), err
}

// pton6 parses s like inet_pton(3) with AF_INET6. netip does the same for an address that has
// a colon and no zone.
func pton6(s string) (netip.Addr, bool) {
	if !strings.Contains(s, ":") || strings.Contains(s, "%") {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a, err == nil
}

// isLinkLocal reports whether a zone of a may be the name of an interface, like the macros
// IN6_IS_ADDR_LINKLOCAL and IN6_IS_ADDR_MC_LINKLOCAL. Unlike netip, these do not consider
// IPv4-mapped addresses.
func isLinkLocal(a netip.Addr) bool {
	return !a.Is4In6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast())
}

// digits returns the number of decimal digits at the start of s.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
