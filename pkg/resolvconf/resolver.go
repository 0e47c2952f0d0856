// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"net/netip"
	"strconv"
	"strings"
)

// Resolver is what a C library makes of a resolv.conf: the orders which its
// lookups follow. [Glibc] and [Musl] return one with every default filled in;
// the zero value is none that a library has.
//
// It says what the file says and no more. The variables LOCALDOMAIN and
// RES_OPTIONS, which glibc reads as well, are not looked at.
type Resolver struct {
	// Nameservers are the servers asked, one to three, in the order of the
	// file; 127.0.0.1 alone if the file names none that is understood. A zone
	// is kept as written: whether the interface exists is not known here. If
	// it does not, glibc asks the address without a zone, and musl passes over
	// the line.
	Nameservers []netip.Addr

	// Search are the domains tried, as written and in order. None is the
	// default. glibc then takes what follows the first dot of the hostname,
	// which is left to the caller, who knows the hostname; musl tries none.
	Search []string

	// Ndots is how many dots a name must have to be tried as it is before the
	// domains of Search (glibc) or without them (musl); 0 to 15, default 1.
	Ndots int

	// Timeout is in seconds, default 5. glibc waits so long for the first
	// server, 1 to 30. musl spends so long on one name, with all servers and
	// attempts, 0 to 60; with 0 it asks nobody.
	Timeout int

	// Attempts are the rounds in which servers are asked, default 2: 0 to 5
	// for glibc, 0 to 10 for musl. With 0 glibc asks nobody; for musl see Crashes.
	Attempts int

	// Crashes is true if the first name that a process looks up is its end: glibc
	// fails an assertion when search domains have some lengths, and reads some
	// sortlist lines for ever; musl divides by 0 Attempts. A Remark with
	// causeCrash has the line.
	Crashes bool

	// The flags of glibc, each false by default. musl has none of them.
	Rotate              bool // begin with another server each time
	EDNS0               bool // say that answers may be longer than 512 bytes
	SingleRequest       bool // ask for A and AAAA one after the other
	SingleRequestReopen bool // and that from a new socket
	NoTLDQuery          bool // never try a name without a dot as it is
	NoReload            bool // never look whether the file has changed
	UseVC               bool // TCP at once
	TrustAD             bool // set and keep the AD bit (2.31)
	NoAAAA              bool // never ask for AAAA (2.36)

	// Remarks lists every line and value that does not do what it seems to
	// say, save comments and blank lines, in the order in which it was found.
	Remarks []Remark
}

// Remark is a line or a value that a library passes over or changes.
type Remark struct {
	Entry
	Cause      Cause
	ReplacedBy int // the line whose value applies instead; 0 if there is none
}

// Cause tells why a library passes over an entry or changes it.
type Cause uint8

// The causes.
const (
	_                   Cause = iota
	causeUnknownKeyword       // unknown, not in the first column, or without the white space after it
	causeNoValue              // a keyword with nothing after it
	causeTrailingText         // text after the one address or domain of a line
	causeInvalidAddress       // a nameserver that is not an address the library reads
	causeInvalidZone          // a zone that can be no interface: glibc drops the zone, musl the line
	causeTooManyServers       // a nameserver after the third
	causeUnknownOption        // an option that the library does not have, or not in this place
	causeNoNumber             // glibc: a number without digits counts as 0
	causeOutOfRange           // a number past its limit, or below 0, becomes another one
	causeReplaced             // a later line or value replaces this one
	causeLineTooLong          // musl: a line of 255 bytes and more
	causeNUL                  // a NUL byte hides this text
	causeNotModelled          // sortlist: glibc heeds it, a Resolver does not say so
	causeCrash                // the process dies of it or hangs, see Resolver.Crashes
)

var causes = [...]string{
	causeUnknownKeyword: "no keyword of this library at the start of the line",
	causeNoValue:        "the keyword has no value",
	causeTrailingText:   "one value is read and the rest of the line is not",
	causeInvalidAddress: "not an address that this library reads",
	causeInvalidZone:    "the zone can be no interface",
	causeTooManyServers: "three nameservers are used and no more",
	causeUnknownOption:  "this library has no such option",
	causeNoNumber:       "a value that is no number counts as 0",
	causeOutOfRange:     "the number is outside its limits and is changed",
	causeReplaced:       "a later one replaces it",
	causeLineTooLong:    "a line of more than 254 bytes is not read",
	causeNUL:            "a NUL byte hides it",
	causeCrash:          "a process that looks up a name dies of it or hangs",
	causeNotModelled:    "sortlist orders the answers of glibc and is not shown",
}

// String says in a few words what the library does.
func (c Cause) String() string {
	if int(c) >= len(causes) || causes[c] == "" {
		return "Cause(" + strconv.Itoa(int(c)) + ")"
	}
	return causes[c]
}

// The limits and defaults which both libraries share.
const (
	maxServers      = 3  // MAXNS
	maxNdots        = 15 // a field of four bits in glibc's struct __res_state
	defaultNdots    = 1
	defaultTimeout  = 5
	defaultAttempts = 2
)

// reading is a Resolver on its way, with the origin of each value that a later
// line may replace; Line 0 is the default.
type reading struct {
	Resolver
	search, ndots, timeout, attempts Entry
}

func newReading() reading {
	return reading{Resolver: Resolver{Ndots: defaultNdots, Timeout: defaultTimeout, Attempts: defaultAttempts}}
}

// result ends the reading: both libraries fall back on the host itself.
func (r *reading) result() Resolver {
	if len(r.Nameservers) == 0 {
		r.Nameservers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return r.Resolver
}

func (r *reading) remark(text string, line int, why Cause) {
	r.Remarks = append(r.Remarks, Remark{Entry: Entry{strings.Trim(text, cSpace), line}, Cause: why})
}

// passOver remarks on a line that is passed over, unless it is blank or meant as a
// comment: every library passes over those, whatever it takes for a comment.
func (r *reading) passOver(s string, line int, why Cause) {
	s = strings.Trim(s, cSpace)
	if s != "" && s[0] != '#' && s[0] != ';' {
		r.remark(s, line, why)
	}
}

// die remarks on the entry that ends every process.
func (r *reading) crash(e Entry) {
	r.Crashes = true
	r.remark(e.Text, e.Line, causeCrash)
}

// replace puts e in the place of the entry at old.
func (r *reading) replace(old *Entry, e Entry) {
	if old.Line != 0 {
		r.Remarks = append(r.Remarks, Remark{*old, causeReplaced, e.Line})
	}
	*old = e
}

// cSpace is what isspace takes for white space in the C locale. Bytes from 0x80
// are none, so UTF-8 has no other.
const cSpace = " \t\n\v\f\r"

// ParseAddr reads an address as both C libraries do where a program gives one in
// the place of a name: in the forms of inet_aton(3), as 127.1 and 0x7f000001, or as
// IPv6, which may have a zone: a number or, for a link-local address, an interface.
func ParseAddr(s string) (netip.Addr, bool) {
	if a, ok := aton(s); ok {
		return a, true
	}
	address, zone, zoned := strings.Cut(s, "%")
	a, ok := pton6(address)
	if !ok || zoned && !glibcZone(zone, linkLocal(a)) {
		return netip.Addr{}, false
	}
	return withZone(a, zone), true
}

// aton reads the whole of s as inet_aton(3) does: one to four numbers, decimal,
// octal or hexadecimal, of which the last fills the bytes that are left.
func aton(s string) (netip.Addr, bool) {
	parts := strings.SplitN(s, ".", 5)
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var word uint32
	for i, part := range parts {
		free, last := 32-8*i, i == len(parts)-1 // bits that are left
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

// atonPart reads s as strtoul(3) does with base 0, but it must begin with a
// digit and be read to its end.
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

// pton6 reads the whole of s as inet_pton(3) does for AF_INET6, which is how
// netip reads an address that is not dotted and has no zone.
func pton6(s string) (netip.Addr, bool) {
	if !strings.Contains(s, ":") || strings.Contains(s, "%") {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a, err == nil
}

// linkLocal tells whether a zone of a may be the name of an interface, as the
// macros IN6_IS_ADDR_LINKLOCAL and _MC_LINKLOCAL do: netip looks into mapped
// addresses, they do not.
func linkLocal(a netip.Addr) bool {
	return !a.Is4In6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast())
}

// withZone adds a zone to an address; 0 is the number of no interface.
func withZone(a netip.Addr, zone string) netip.Addr {
	if strings.Trim(zone, "0") == "" {
		return a
	}
	return a.WithZone(zone)
}

// digits returns how many decimal digits s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
