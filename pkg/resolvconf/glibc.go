// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strconv"
	"strings"
)

// The limits of glibc (resolv.h). Since 2.26 it has no limit for search domains.
const (
	glibcTimeout  = 30 // RES_MAXRETRANS
	glibcAttempts = 5  // RES_MAXRETRY
)

// glibcBlank separates words for glibc. A carriage return does not: in a file with CRLF no
// address is valid, except one with a zone, which loses the zone, and the last domain ends
// in "\r".
const glibcBlank = " \t"

// Glibc reads text like glibc 2.36 (resolv/res_init.c). Releases since 2.26 differ only in
// the options they have and, before 2.29, in the white space that may follow an address.
// 2.41 adds strict-error, and a "-" before an option that clears it. Those with the fix of
// CVE-2026-8674, such as 2.41-12+deb13u5 of Debian 13, survive the search lists of glibcAborts.
//
// Lines have any length. A keyword starts in the first column and is followed by a space or
// a tab. A line that starts with ";" or "#" is a comment; there are no other comments.
func Glibc(text string) Resolver {
	g := glibc{newReading()}
	for line := 1; text != ""; line++ {
		var s string
		s, text, _ = strings.Cut(text, "\n")
		if s == "" || s[0] == ';' || s[0] == '#' {
			continue
		}
		if s, hidden, found := strings.Cut(s, "\x00"); found { // a C string ends there
			g.line(s, line)
			g.ignore(hidden, line, causeNUL)
			continue
		}
		g.line(s, line)
	}
	if glibcAborts(g.Search) {
		g.crash(g.search, causeAbort)
	}
	return g.result()
}

// glibcAborts reports whether the assertion in update_from_conf fails (resolv/resolv_conf.c), in
// glibc without the fix of CVE-2026-8674.
// glibc copies up to six domains, in up to 256 bytes with a NUL after each, to the public
// struct __res_state and later compares the copy with the full list. If the bytes run out
// before six domains are copied, the comparison takes the copy for one that the application
// has changed, unless the copy is larger than its array of pointers: 56 bytes if a pointer
// has 8.
func glibcAborts(search []string) bool {
	const domains, room, pointers = 6, 256, 56
	copied := 0
	for _, domain := range search[:min(len(search), domains)] {
		size := len(domain) + 1
		if copied+size > room {
			return copied <= pointers
		}
		copied += size
	}
	return false
}

type glibc struct{ reading }

func (g *glibc) line(s string, line int) {
	keyword, value := glibcWord(s)
	switch keyword {
	case "nameserver", "domain", "search", "options", "sortlist":
		if value == "" {
			g.remark(s, line, causeNoValue)
			return
		}
	}
	switch keyword {
	case "nameserver":
		g.nameserver(value, line)
	case "domain":
		domain, rest := glibcWord(value)
		g.setSearch(domain, line)
		g.trailing(rest, line)
	case "search":
		g.setSearch(value, line)
	case "options":
		g.options(value, line)
	case "sortlist":
		if glibcHangs(value) {
			g.crash(Entry{s, line}, causeCrash)
			return
		}
		g.remark(s, line, causeNotModelled)
	default:
		g.ignore(s, line, causeUnknownKeyword)
	}
}

// glibcWord returns the first word of s, and the rest without leading blanks.
func glibcWord(s string) (word, rest string) {
	i := strings.IndexAny(s, glibcBlank)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], glibcBlank)
}

// setSearch replaces the list; the keyword is search or domain.
func (g *glibc) setSearch(value string, line int) {
	g.replace(&g.search, Entry{value, line})
	g.Search = strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(glibcBlank, r) })
}

func (g *glibc) nameserver(value string, line int) {
	value, rest := glibcWord(value)
	a, cause := parseAddr(value, isGlibcZone)
	if cause != "" {
		g.remark(value, line, cause)
	}
	if cause != causeInvalidAddress { // with an invalid zone the address is used without it
		g.addServer(a, "", value, rest, line)
	}
}

// isGlibcZone reports whether zone is valid (inet/inet6_scopeid_pton.c): a number of 32 bits
// or, for a link-local address, the name of an interface.
func isGlibcZone(zone string, linkLocal bool) bool {
	if linkLocal && isInterface(zone) {
		return true
	}
	if zone == "" || digits(zone) != len(zone) {
		return false
	}
	_, err := strconv.ParseUint(zone, 10, 32)
	return err == nil
}

// isInterface reports whether name is a valid name of an interface on Linux.
func isInterface(name string) bool {
	return name != "" && len(name) < 16 && !strings.ContainsAny(name, cSpace+"/")
}

// glibcHangs reports whether glibc loops for ever on the value of a sortlist line. It does so
// at a byte that its loop neither skips nor ends at: white space other than space and tab,
// such as the "\r" of a line with CRLF; a byte that is not ASCII; a mask without an address.
func glibcHangs(s string) bool {
	for {
		s = strings.TrimLeft(s, glibcBlank)
		if s == "" || s[0] == ';' {
			return false
		}
		rest := glibcSortlistRest(s)
		if len(rest) == len(s) {
			return true
		}
		s = rest
	}
}

// glibcSortlistRest returns the rest of s after its first address and mask.
func glibcSortlistRest(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r == '/' || r == '&' || glibcEndsMask(r) })
	if end < 0 {
		return ""
	}
	address, rest := s[:end], s[end:]
	if _, ok := aton(address); !ok || rest[0] != '/' && rest[0] != '&' {
		return rest
	}
	if end = strings.IndexFunc(rest, glibcEndsMask); end < 0 {
		return ""
	}
	return rest[end:]
}

func glibcEndsMask(r rune) bool {
	return r == ';' || r >= 0x80 || strings.ContainsRune(cSpace, r)
}

// options sets the options of one line; options of earlier lines stay. The value of "ndots: 5"
// is 5: atoi(3) skips white space, including the space before the next word.
func (g *glibc) options(s string, line int) {
	seen := 0 // leading bytes of s that belong to the number of an earlier option
	for s = strings.TrimLeft(s, glibcBlank); s != ""; {
		word, rest := glibcWord(s)
		size := g.number(Entry{word, line}, s)
		if size == 0 && seen <= 0 && !g.flag(word) {
			g.remark(word, line, causeUnknownOption)
		}
		seen = max(seen, size) - (len(s) - len(rest))
		s = rest
	}
}

// number sets the option e if it takes a number, and returns the number of bytes read from s,
// the rest of the line, which starts with e.
func (g *glibc) number(e Entry, s string) int {
	key, _, found := strings.Cut(e.Text, ":")
	if !found {
		return 0
	}
	n, size := atoi(s[len(key)+1:])
	set := n
	switch key {
	case "ndots":
		g.replace(&g.ndots, e)
		set = min(n, maxNdots) & maxNdots // four bits: -1 becomes 15
		g.Ndots = set
	case "timeout":
		g.replace(&g.timeout, e)
		set = min(max(n, 1), glibcTimeout) // res_send.c waits at least a second
		g.Timeout = set
	case "attempts":
		g.replace(&g.attempts, e)
		set = min(max(n, 0), glibcAttempts) // a negative number gives no round either
		g.Attempts = set
	default:
		return 0
	}
	switch {
	case size == 0:
		g.remark(e.Text, e.Line, causeNoNumber)
	case set != n:
		g.remark(e.Text, e.Line, causeOutOfRange)
	}
	return len(key) + 1 + size
}

// atoi parses a number like atoi(3), which is strtol(3) truncated to 32 bits; a long has 64
// bits. It returns the number of bytes read, 0 if there are no digits.
func atoi(s string) (n, size int) {
	number := strings.TrimLeft(s, cSpace)
	size = len(s) - len(number)
	sign := 0
	if strings.HasPrefix(number, "-") || strings.HasPrefix(number, "+") {
		sign = 1
	}
	end := sign + digits(number[sign:])
	if end == sign {
		return 0, 0
	}
	long, _ := strconv.ParseInt(number[:end], 10, 64) // saturates
	return int(int32(long)), size + end
}

// flag sets the flag whose name is a prefix of s: "rotated" sets rotate.
func (g *glibc) flag(s string) bool {
	for _, f := range [...]struct {
		name string
		set  *bool
	}{ // single-request is a prefix of the one before it
		{"rotate", &g.Rotate},
		{"edns0", &g.EDNS0},
		{"single-request-reopen", &g.SingleRequestReopen},
		{"single-request", &g.SingleRequest},
		{"no_tld_query", &g.NoTLDQuery},
		{"no-tld-query", &g.NoTLDQuery},
		{"no-reload", &g.NoReload},
		{"use-vc", &g.UseVC},
		{"trust-ad", &g.TrustAD},
		{"no-aaaa", &g.NoAAAA},
	} {
		if strings.HasPrefix(s, f.name) {
			*f.set = true
			return true
		}
	}
	return false
}
