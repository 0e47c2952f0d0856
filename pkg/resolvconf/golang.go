// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"net/netip"
	"strconv"
	"strings"
)

// The limits of Go's package net. It has none for search domains.
const (
	goLine   = 64 << 10 // bytes of its buffer for the file, newline included
	goNumber = 0xffffff // the largest number (parse.go)
	goBlank  = " \t\r"
)

// Go reads text like the package net of Go 1.26 (net/dnsconfig_unix.go), which a program
// uses unless cgo calls the C library.
//
// Words are separated by spaces, tabs and carriage returns, also before a keyword. A line
// that starts with ";" or "#" is a comment. A line of 64 KiB ends the file.
func Go(text string) Resolver {
	g := golang{newReading()}
	g.EDNS0 = true // always
	for line := 1; text != ""; line++ {
		s, rest, newline := strings.Cut(text, "\n")
		if len(s) >= goLine {
			g.remark(s[:64]+"...", line, causeBufferFull)
			break
		}
		g.line(s, line)
		text = rest
		if !newline {
			break
		}
	}
	if len(g.Nameservers) == 0 {
		g.Nameservers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return g.Resolver
}

type golang struct{ reading }

func (g *golang) line(s string, line int) {
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(goBlank, r) })
	if len(words) == 0 || s[0] == ';' || s[0] == '#' {
		return
	}
	values := words[1:]
	switch words[0] {
	case "nameserver":
		g.nameserver(values, line)
	case "domain":
		g.domain(values, line)
	case "search": // a line without a value empties the list
		g.replace(&g.search, Entry{strings.Join(values, " "), line})
		g.Search = nil
		for _, domain := range values {
			if domain == "." {
				g.remark(domain, line, causeRootDomain)
				continue
			}
			g.Search = append(g.Search, domain)
		}
	case "options":
		for _, word := range values {
			g.option(Entry{word, line})
		}
	default:
		g.ignore(s, line, causeUnknownKeyword)
	}
}

func (g *golang) nameserver(values []string, line int) {
	if len(values) == 0 {
		g.remark("nameserver", line, causeNoValue)
		return
	}
	a, err := netip.ParseAddr(values[0])
	cause := Cause("")
	if err != nil {
		cause = causeInvalidAddress
	}
	g.addServer(a, cause, values[0], strings.Join(values[1:], " "), line)
}

func (g *golang) domain(values []string, line int) {
	if len(values) == 0 {
		g.remark("domain", line, causeNoValue)
		return
	}
	g.replace(&g.search, Entry{values[0], line})
	g.Search = values[:1:1]
	g.trailing(strings.Join(values[1:], " "), line)
}

// option sets the option e. The names are exact, except that the text after a number is
// ignored.
func (g *golang) option(e Entry) {
	key, value, found := strings.Cut(e.Text, ":")
	switch {
	case found && key == "ndots":
		g.replace(&g.ndots, e)
		g.Ndots = g.number(e, value, 0, maxNdots)
		return
	case found && key == "timeout":
		g.replace(&g.timeout, e)
		g.Timeout = g.number(e, value, 1, goNumber)
		return
	case found && key == "attempts":
		g.replace(&g.attempts, e)
		g.Attempts = g.number(e, value, 1, goNumber)
		return
	}
	switch e.Text {
	case "rotate":
		g.Rotate = true
	case "single-request", "single-request-reopen":
		g.SingleRequest = true
	case "use-vc", "usevc", "tcp":
		g.UseVC = true
	case "trust-ad":
		g.TrustAD = true
	case "no-reload":
		g.NoReload = true
	case "edns0":
	default:
		g.remark(e.Text, e.Line, causeUnknownOption)
	}
}

// number parses the digits at the start of value, none as 0, and returns a number between
// low and high.
func (g *golang) number(e Entry, value string, low, high int) int {
	size := digits(value)
	if size == 0 {
		g.remark(e.Text, e.Line, causeNoNumber)
		return low
	}
	n, err := strconv.Atoi(value[:size])
	set := min(max(n, low), high) // n saturates
	if err != nil || set != n {
		g.remark(e.Text, e.Line, causeOutOfRange)
	}
	return set
}
