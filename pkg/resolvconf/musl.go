// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"strconv"
	"strings"
)

// The limits of musl (src/network/resolvconf.c).
const (
	muslTimeout  = 60
	muslAttempts = 10
	muslLine     = 254 // bytes before the newline; fgets has 256, newline and NUL included
)

// Musl reads text as musl 1.2.3 does (src/network/resolvconf.c). A keyword
// starts in the first column and white space of C follows it. There are no
// comments: a line that starts with "#" is none because it has no keyword. A line
// of more than 254 bytes is passed over, and so is one with a NUL byte, together
// with the line after it.
func Musl(text string) Resolver {
	m := musl{newReading()}
	for line := 1; text != ""; line++ {
		var s string
		s, text = muslCut(text)
		content, newline := strings.CutSuffix(s, "\n")
		before, hidden, nul := strings.Cut(s, "\x00")
		switch {
		case len(content) > muslLine:
			m.passOver(s, line, causeLineTooLong)
		case !nul:
			m.line(s, line)
		case !newline: // the end of the file: the string ends at the NUL
			m.line(before, line)
			m.passOver(hidden, line, causeNUL)
		default:
			// The newline after the NUL is not seen, and the search for one
			// ends with the next line.
			m.passOver(s, line, causeNUL)
			line++
			s, text = muslCut(text)
			m.passOver(s, line, causeNUL)
		}
	}
	if m.Attempts == 0 { // src/network/res_msend.c: the timeout is divided by it
		m.crash(m.attempts)
	}
	return m.result()
}

// muslCut cuts the first line from text, with its newline: musl takes that for
// the white space after a keyword.
func muslCut(text string) (line, rest string) {
	i := strings.IndexByte(text, '\n') + 1
	if i == 0 {
		return text, ""
	}
	return text[:i], text[i:]
}

type musl struct{ reading }

func (m *musl) line(s string, line int) {
	i := strings.IndexAny(s, cSpace)
	if i < 0 {
		m.passOver(s, line, causeUnknownKeyword)
		return
	}
	value := strings.Trim(s[i:], cSpace)
	switch keyword := s[:i]; keyword {
	case "nameserver":
		m.nameserver(value, line)
	case "domain", "search":
		// Two words for one thing, which a line without a value empties.
		m.replace(&m.search, Entry{value, line})
		m.Search = nil
		if value != "" {
			m.Search = strings.FieldsFunc(value, isSpace)
		}
	case "options":
		m.options(value, line)
	default:
		m.passOver(s, line, causeUnknownKeyword)
	}
}

func (m *musl) nameserver(value string, line int) {
	rest := ""
	if i := strings.IndexAny(value, cSpace); i >= 0 {
		value, rest = value[:i], value[i:]
	}
	if value == "" {
		m.remark("nameserver", line, causeNoValue)
		return
	}
	if len(m.Nameservers) == maxServers {
		m.remark(value, line, causeTooManyServers)
		return
	}
	a, ok := aton(value)
	if !ok {
		address, zone, zoned := strings.Cut(value, "%")
		if a, ok = pton6(address); !ok {
			m.remark(value, line, causeInvalidAddress)
			return
		}
		if zoned && !muslZone(zone, linkLocal(a)) {
			m.remark(value, line, causeInvalidZone)
			return
		}
		a = withZone(a, zone)
	}
	m.Nameservers = append(m.Nameservers, a)
	if rest != "" {
		m.remark(rest, line, causeTrailingText)
	}
}

// muslZone tells whether zone can be one (src/network/lookup_ipliteral.c): digits
// are a number of 32 bits, and all else is the name of an interface, which only a
// link-local address can have.
func muslZone(zone string, linkLocal bool) bool {
	if zone != "" && digits(zone) == len(zone) {
		_, err := strconv.ParseUint(zone, 10, 32)
		return err == nil
	}
	return linkLocal && isInterface(zone)
}

// options sets the three options that musl has. Each is looked for in the whole
// line and taken where it is found first, also in the middle of a word, and if no
// digit follows there it is not looked for again.
func (m *musl) options(s string, line int) {
	var read []int // where an option was found
	for _, o := range [...]struct {
		key   string
		limit int
		set   *int
		from  *Entry
	}{
		{"ndots:", maxNdots, &m.Ndots, &m.ndots},
		{"attempts:", muslAttempts, &m.Attempts, &m.attempts},
		{"timeout:", muslTimeout, &m.Timeout, &m.timeout},
	} {
		i := strings.Index(s, o.key)
		if i < 0 {
			continue
		}
		number := s[i+len(o.key):]
		number = number[:digits(number)]
		if number == "" {
			continue
		}
		e := Entry{o.key + number, line}
		m.replace(o.from, e)
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > uint64(o.limit) {
			n = uint64(o.limit)
			m.remark(e.Text, line, causeOutOfRange)
		}
		*o.set = int(n)
		read = append(read, i)
	}
	m.unread(s, line, read)
}

// unread remarks on the words of s in which no option was found.
func (m *musl) unread(s string, line int, read []int) {
	for i := 0; i < len(s); {
		word := s[i:]
		if n := strings.IndexAny(word, cSpace); n >= 0 {
			word = word[:n]
		}
		found := word == ""
		for _, at := range read {
			found = found || i <= at && at < i+len(word)
		}
		if !found {
			m.remark(word, line, causeUnknownOption)
		}
		i += len(word) + 1
	}
}

func isSpace(r rune) bool { return strings.ContainsRune(cSpace, r) }
