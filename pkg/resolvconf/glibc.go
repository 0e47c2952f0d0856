// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strconv"
	"strings"
)

// The limits of glibc (resolv.h). It has none for the number of search domains
// or their length since 2.26.
const (
	glibcTimeout  = 30 // RES_MAXRETRANS
	glibcAttempts = 5  // RES_MAXRETRY
)

// glibcBlank parts words for glibc. A carriage return is no blank: in a file with
// CRLF no address is understood, save one with a zone, which then loses that, and
// the last domain ends in "\r".
const glibcBlank = " \t"

// Glibc reads text as glibc 2.36 does (resolv/res_init.c); it has done so since
// 2.26, but for the options of later releases and for addresses, after which any
// white space could follow before 2.29. Lines have any length. A keyword starts
// in the first column and a blank or tab follows it. A line that starts with ";"
// or "#" is a comment; nowhere else do these open one.
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
			g.passOver(hidden, line, causeNUL)
			continue
		}
		g.line(s, line)
	}
	if glibcAborts(g.Search) {
		g.crash(g.search)
	}
	return g.result()
}

// glibcAborts tells whether the assertion in update_from_conf fails
// (resolv/resolv_conf.c). The public struct __res_state has room for six domains
// and 256 bytes, a NUL after each included; the search list is whole elsewhere.
// A check that the two agree takes it for a change by the application if the
// bytes run out before the domains do, unless what was copied is larger than the
// array of pointers to it: 56 bytes where a pointer has 8.
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
		g.alone(rest, line)
	case "search":
		g.setSearch(value, line)
	case "options":
		g.options(value, line)
	case "sortlist":
		if glibcHangs(value) {
			g.crash(Entry{s, line})
			return
		}
		g.remark(s, line, causeNotModelled)
	default:
		g.passOver(s, line, causeUnknownKeyword)
	}
}

// glibcWord cuts the first word from s, and the blanks before the next.
func glibcWord(s string) (word, rest string) {
	i := strings.IndexAny(s, glibcBlank)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], glibcBlank)
}

func (g *glibc) alone(rest string, line int) {
	if rest != "" {
		g.remark(rest, line, causeTrailingText)
	}
}

// setSearch replaces the list: domain and search are two words for one thing.
func (g *glibc) setSearch(value string, line int) {
	g.replace(&g.search, Entry{value, line})
	g.Search = strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(glibcBlank, r) })
}

func (g *glibc) nameserver(value string, line int) {
	value, rest := glibcWord(value)
	a, ok := aton(value)
	if !ok {
		address, zone, zoned := strings.Cut(value, "%")
		if a, ok = pton6(address); !ok {
			g.remark(value, line, causeInvalidAddress)
			return
		}
		if zoned && !glibcZone(zone, linkLocal(a)) { // the address stays, without it
			g.remark(value, line, causeInvalidZone)
			zone = ""
		}
		a = withZone(a, zone)
	}
	if len(g.Nameservers) == maxServers {
		g.remark(value, line, causeTooManyServers)
		return
	}
	g.Nameservers = append(g.Nameservers, a)
	g.alone(rest, line)
}

// glibcZone tells whether zone can be one (inet/inet6_scopeid_pton.c): a number
// of 32 bits or, for a link-local address, the name of an interface.
func glibcZone(zone string, linkLocal bool) bool {
	if linkLocal && isInterface(zone) {
		return true
	}
	if zone == "" || digits(zone) != len(zone) {
		return false
	}
	_, err := strconv.ParseUint(zone, 10, 32)
	return err == nil
}

// isInterface tells whether Linux can have an interface of this name.
func isInterface(name string) bool {
	return name != "" && len(name) < 16 && !strings.ContainsAny(name, cSpace+"/")
}

// glibcHangs tells whether the reading of a sortlist comes to a byte over which
// it neither goes nor stops: white space other than blank and tab, such as the
// "\r" of a line with CRLF; a byte that is not ASCII; a mask without an address.
func glibcHangs(s string) bool {
	for {
		s = strings.TrimLeft(s, glibcBlank)
		if s == "" || s[0] == ';' {
			return false
		}
		end := strings.IndexFunc(s, func(r rune) bool { return r == '/' || r == '&' || glibcEndsMask(r) })
		if end < 0 {
			return false
		}
		net, rest := s[:end], s[end:]
		if _, ok := aton(net); ok && (rest[0] == '/' || rest[0] == '&') {
			if end = strings.IndexFunc(rest, glibcEndsMask); end < 0 {
				return false
			}
			rest = rest[end:]
		}
		if len(rest) == len(s) {
			return true
		}
		s = rest
	}
}

func glibcEndsMask(r rune) bool {
	return r == ';' || r >= 0x80 || strings.ContainsRune(cSpace, r)
}

// options sets the options of one line; those of earlier lines stay. The number
// of "ndots: 5" is 5: atoi(3) skips white space, also that before the next word.
func (g *glibc) options(s string, line int) {
	seen := 0 // bytes of s that begin with what a number before them was read from
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

// number sets the option e if it has a number, and returns how many bytes of s
// were read. The line goes on in s, of which e is the first word.
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
		set = min(n, maxNdots) & maxNdots // four bits: -1 is 15
		g.Ndots = set
	case "timeout":
		g.replace(&g.timeout, e)
		set = min(max(n, 1), glibcTimeout) // res_send.c waits a second if there is less
		g.Timeout = set
	case "attempts":
		g.replace(&g.attempts, e)
		set = min(max(n, 0), glibcAttempts) // below 0 there is no round either
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

// atoi reads a number as atoi(3) does, which is strtol(3) cut to 32 bits, and
// returns how many bytes it read: 0 if there are no digits. A long has 64 bits.
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
	long, _ := strconv.ParseInt(number[:end], 10, 64) // the nearest one, if it does not fit
	return int(int32(long)), size + end
}

// flag sets the flag whose name s begins with: "rotated" is "rotate".
func (g *glibc) flag(s string) bool {
	for _, f := range [...]struct {
		name string
		set  *bool
	}{ // single-request is the beginning of the one before it
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
