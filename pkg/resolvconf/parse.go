// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxFile is the size in bytes at which the kubelet refuses to read a
// resolv.conf; a file must be smaller.
const MaxFile = 10 << 20

var (
	errTooLarge     = errors.New("the read limit is reached")
	errNoNameserver = errors.New("nameserver list is empty ") // the blank is the kubelet's
)

// Read parses r as the kubelet parses its resolv.conf. A reader that fails or
// holds MaxFile bytes and more gives a File with Err set.
func Read(r io.Reader) File {
	text, err := io.ReadAll(io.LimitReader(r, MaxFile))
	if err == nil && len(text) >= MaxFile {
		err = errTooLarge
	}
	if err != nil {
		return File{Err: &ParseError{err}}
	}
	return Parse(string(text))
}

// Parse reads text as the kubelet does (pkg/kubelet/network/dns): lines end at
// "\n" alone, white space is Unicode's, "#" opens a comment at the start of a line
// and nowhere else, ";" never does, keywords are exact, the last search line wins,
// options gather over all lines and the last value of each wins.
func Parse(text string) File {
	var p parser
	p.reserve()
	for line := 1; text != ""; line++ {
		s := text
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			s, text = text[:end], text[end+1:]
		} else {
			text = ""
		}
		p.line(strings.TrimSpace(s), line)
	}
	return p.File
}

type parser struct {
	File
	options map[string]int // index in Options by key, once a scan would be slow
}

// reserve makes room for what files usually hold, in one piece.
func (p *parser) reserve() {
	const nameservers, searches, options = 3, 8, 5
	room := make([]Entry, nameservers+searches+options)
	p.Nameservers, room = room[:0:nameservers], room[nameservers:]
	p.Searches, room = room[:0:searches], room[searches:]
	p.Options = room[:0:options]
}

func (p *parser) line(s string, line int) {
	if s == "" || s[0] == '#' {
		return
	}
	keyword, rest := cutField(s)
	switch keyword {
	case "nameserver":
		p.nameserver(rest, line)
	case "search":
		p.search(rest, line)
	case "options":
		for option := range strings.FieldsSeq(rest) {
			p.option(Entry{option, line})
		}
	default:
		p.ignore(Entry{s, line}, reasonUnknownKeyword, 0)
	}
}

func (p *parser) nameserver(rest string, line int) {
	address, rest := cutField(rest)
	if address == "" {
		p.ignore(Entry{"nameserver", line}, reasonNoValue, 0)
		p.Err = &ParseError{errNoNameserver}
		return
	}
	p.Nameservers = append(p.Nameservers, Entry{address, line})
	if rest != "" {
		p.ignore(Entry{rest, line}, reasonTrailingText, 0)
	}
}

func (p *parser) search(rest string, line int) {
	for _, e := range p.Searches {
		p.ignore(e, reasonReplaced, line)
	}
	p.Searches = p.Searches[:0]
	for domain := range strings.FieldsSeq(rest) {
		if domain == "." {
			p.ignore(Entry{domain, line}, reasonRootDomain, 0)
			continue
		}
		p.Searches = append(p.Searches, Entry{strings.TrimSuffix(domain, "."), line})
	}
}

func (p *parser) option(e Entry) {
	i := p.indexOf(optionKey(e.Text))
	if i < len(p.Options) {
		p.ignore(p.Options[i], reasonOverridden, e.Line)
		p.Options[i] = e
		return
	}
	p.Options = append(p.Options, e)
}

// indexOf returns the place of the option key, len(p.Options) for a new one,
// which the caller then appends.
func (p *parser) indexOf(key string) int {
	const few = 16 // real files have up to ten; a hostile one of 10 MiB has millions
	n := len(p.Options)
	if n < few {
		for i, e := range p.Options {
			if optionKey(e.Text) == key {
				return i
			}
		}
		return n
	}
	if p.options == nil {
		p.options = make(map[string]int, 2*few)
		for i, e := range p.Options {
			p.options[optionKey(e.Text)] = i
		}
	}
	i, found := p.options[key]
	if !found {
		p.options[key] = n
		return n
	}
	return i
}

func (p *parser) ignore(e Entry, reason Reason, replacedBy int) {
	p.Ignored = append(p.Ignored, IgnoredEntry{e, reason, replacedBy})
}

func cutField(s string) (field, rest string) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= utf8.RuneSelf { // a letter is none of these
			if end := strings.IndexFunc(s[i:], unicode.IsSpace); end >= 0 {
				return s[:i+end], strings.TrimSpace(s[i+end:])
			}
			break
		}
	}
	return s, ""
}

// ParseError is the error of a File that was opened and not understood. Its text
// is the one with which the kubelet fails a pod; Err alone has the one of the
// kubelet's own check at its start.
type ParseError struct{ Err error }

func (e *ParseError) Error() string {
	return "Encountered error while parsing resolv conf file. Error: " + e.Err.Error()
}

func (e *ParseError) Unwrap() error { return e.Err }
