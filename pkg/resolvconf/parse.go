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

// MaxFile is the size in bytes from which on the kubelet refuses a resolv.conf. A file must
// be smaller.
const MaxFile = 10 << 20

var (
	errTooLarge     = errors.New("the read limit is reached")
	errNoNameserver = errors.New("nameserver list is empty ") // the trailing space is the kubelet's
)

// Read parses the text of r like [Parse]. If reading fails, or if there are MaxFile bytes or
// more, it returns a File with Err set and no values.
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

// Parse parses text like the kubelet (pkg/kubelet/network/dns). A line ends at "\n" only.
// White space is as in Unicode. A "#" starts a comment at the start of a line only, a ";"
// never does. Keywords are case-sensitive. The last search line wins. Options of all lines
// are merged, and the last value of an option wins.
func Parse(text string) File {
	var p parser
	p.allocate()
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
	options map[string]int // index in Options by key; nil for a few options
}

// allocate allocates the lists of a usual file in one piece.
func (p *parser) allocate() {
	const nameservers, searches, options = 3, 8, 5
	buf := make([]Entry, nameservers+searches+options)
	p.Nameservers, buf = buf[:0:nameservers], buf[nameservers:]
	p.Searches, buf = buf[:0:searches], buf[searches:]
	p.Options = buf[:0:options]
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

// indexOf returns the index of the option with the given key, or len(p.Options) if there is
// none; the caller then appends it.
func (p *parser) indexOf(key string) int {
	const few = 16 // real files have at most ten options, a hostile file of 10 MiB has millions
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

// cutField returns the first word of s, and the rest without surrounding white space.
func cutField(s string) (field, rest string) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= utf8.RuneSelf { // white space or not ASCII
			if end := strings.IndexFunc(s[i:], unicode.IsSpace); end >= 0 {
				return s[:i+end], strings.TrimSpace(s[i+end:])
			}
			break
		}
	}
	return s, ""
}

// ParseError is the error of a file that could be opened and not be parsed. Its text is the error
// of a kubelet that refuses a pod. The text of Err alone is in the event that reports the file
// when the kubelet starts.
type ParseError struct{ Err error }

func (e *ParseError) Error() string {
	return "Encountered error while parsing resolv conf file. Error: " + e.Err.Error()
}

func (e *ParseError) Unwrap() error { return e.Err }
