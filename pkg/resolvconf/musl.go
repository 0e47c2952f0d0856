// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"slices"
	"strconv"
	"strings"
)

// The limits of musl (src/network/resolvconf.c).
const (
	muslTimeout  = 60
	muslAttempts = 10
	muslLine     = 254 // bytes before the newline; fgets has 256, newline and NUL included
)

// Musl reads text like musl 1.2.3 and 1.2.5 (src/network/resolvconf.c).
//
// A keyword starts in the first column and is followed by white space of C. There are no
// comments: a line that starts with "#" is ignored because it has no keyword. A line of more
// than 254 bytes is ignored. A line with a NUL byte is ignored together with the next line.
func Musl(text string) Resolver {
	m := musl{newReading()}
	for line := 1; text != ""; line++ {
		var s string
		s, text = muslCut(text)
		content, newline := strings.CutSuffix(s, "\n")
		before, hidden, nul := strings.Cut(s, "\x00")
		switch {
		case len(content) > muslLine:
			m.ignore(s, line, causeLineTooLong)
		case !nul:
			m.line(s, line)
		case !newline: // the last line: the string ends at the NUL
			m.line(before, line)
			m.ignore(hidden, line, causeNUL)
		default:
			// musl does not find the newline after the NUL and reads on to the end
			// of the next line.
			m.ignore(s, line, causeNUL)
			line++
			s, text = muslCut(text)
			m.ignore(s, line, causeNUL)
		}
	}
	if m.Attempts == 0 { // src/network/res_msend.c divides the timeout by it
		m.crash(m.attempts, causeCrash)
	}
	return m.result()
}

// muslCut returns the first line of text with its newline, which musl accepts as the white
// space after a keyword.
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
		m.ignore(s, line, causeUnknownKeyword)
		return
	}
	value := strings.Trim(s[i:], cSpace)
	switch keyword := s[:i]; keyword {
	case "nameserver":
		m.nameserver(value, line)
	case "domain", "search":
		// A line without a value empties the list.
		m.replace(&m.search, Entry{value, line})
		m.Search = nil
		if value != "" {
			m.Search = strings.FieldsFunc(value, isSpace)
		}
	case "options":
		m.options(value, line)
	default:
		m.ignore(s, line, causeUnknownKeyword)
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
	a, cause := parseAddr(value, isMuslZone)
	m.addServer(a, cause, value, rest, line)
}

// isMuslZone reports whether zone is valid (src/network/lookup_ipliteral.c): a number of 32
// bits or, for a link-local address, the name of an interface.
func isMuslZone(zone string, linkLocal bool) bool {
	if zone != "" && digits(zone) == len(zone) {
		_, err := strconv.ParseUint(zone, 10, 32)
		return err == nil
	}
	return linkLocal && isInterface(zone)
}

// options sets the three options of musl. musl uses the first occurrence of each in the
// line, which may be inside a word, and ignores the option if no digit follows there.
func (m *musl) options(s string, line int) {
	var found []int // the index of each option
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
		found = append(found, i)
	}
	m.remarkOthers(s, line, found)
}

// remarkOthers adds a remark for each word of s that contains none of the options found.
func (m *musl) remarkOthers(s string, line int, found []int) {
	for i := 0; i < len(s); {
		word := s[i:]
		if n := strings.IndexAny(word, cSpace); n >= 0 {
			word = word[:n]
		}
		isOption := func(at int) bool { return i <= at && at < i+len(word) }
		if word != "" && !slices.ContainsFunc(found, isOption) {
			m.remark(word, line, causeUnknownOption)
		}
		i += len(word) + 1
	}
}

func isSpace(r rune) bool { return strings.ContainsRune(cSpace, r) }
