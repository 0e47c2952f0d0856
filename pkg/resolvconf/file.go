// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// File is a resolv.conf as the kubelet reads it: its values with their lines, and what the
// kubelet ignores. The zero value is an empty file. Callers may share a File and must not
// change it.
type File struct {
	Path string // where the file was read; "": unknown

	Nameservers []Entry // in order, duplicates kept
	Searches    []Entry // of the last search line; without ".", and without one trailing dot each
	Options     []Entry // one for each key, in order of its first occurrence, with its last value

	// Ignored holds all other values and lines, except comments and blank lines, in the
	// order in which they turned out to have no effect.
	Ignored []IgnoredEntry

	// Err is the error of a kubelet that refuses the file, in the kubelet's words, or
	// nil. The kubelet refuses a file that it cannot open or read completely, and one with
	// a nameserver line without a value. The lists have the values that could be read.
	Err error
}

// Entry is one value of a resolv.conf.
type Entry struct {
	Text string
	Line int // line number, from 1
}

// IgnoredEntry is a value or a line that the kubelet ignores.
type IgnoredEntry struct {
	Entry
	Reason     Reason
	ReplacedBy int // the line whose value applies instead; 0 if there is none
}

// Reason is the reason why the kubelet ignores an entry: the identifier of its rule in docs/checks.md, and the
// rule in one sentence.
type Reason string

const (
	reasonUnknownKeyword Reason = "H6 the kubelet reads only nameserver, search and options lines"
	reasonNoValue        Reason = "H7 a nameserver line needs an address"
	reasonTrailingText   Reason = "H7 a nameserver line has one address"
	reasonRootDomain     Reason = `H8 the search domain "." is dropped`
	reasonReplaced       Reason = "H8 a later search line replaces this one"
	reasonOverridden     Reason = "H9 a later value of the same option wins"
)

// Rule returns the identifier, such as "H6". It returns "" if r is not a reason.
func (r Reason) Rule() string {
	rule, _, _ := strings.Cut(string(r), " ")
	return rule
}

// String describes the rule in one sentence. The text may change in any release.
func (r Reason) String() string {
	_, text, _ := strings.Cut(string(r), " ")
	return text
}

// Config returns the values of f without their lines.
func (f File) Config() Config {
	return Config{Nameservers: texts(f.Nameservers), Searches: texts(f.Searches), Options: texts(f.Options)}
}

func texts(entries []Entry) []string {
	if len(entries) == 0 {
		return nil
	}
	s := make([]string, len(entries))
	for i, e := range entries {
		s[i] = e.Text
	}
	return s
}

// Config holds the values of a resolv.conf, each list in the order of the file. The zero
// value is an empty file. Values are not validated: a nameserver may have a zone, a domain
// may have any length.
type Config struct {
	Nameservers []string // addresses
	Searches    []string // domains
	Options     []string // "name" or "name:value"
}

// Equal reports whether c and d have the same values. The order of options is ignored,
// because the kubelet writes them in random order.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Nameservers, d.Nameservers) &&
		slices.Equal(c.Searches, d.Searches) &&
		slices.Equal(slices.Sorted(slices.Values(c.Options)), slices.Sorted(slices.Values(d.Options)))
}

// String returns c in the format of resolv.conf(5). Nameserver lines come first, so that
// a resolver that reads the file in pieces has them in the first piece. An empty list gives
// no line.
func (c Config) String() string {
	var b strings.Builder
	for _, s := range c.Nameservers {
		b.WriteString("nameserver " + s + "\n")
	}
	if len(c.Searches) > 0 {
		b.WriteString("search " + strings.Join(c.Searches, " ") + "\n")
	}
	if len(c.Options) > 0 {
		b.WriteString("options " + strings.Join(c.Options, " ") + "\n")
	}
	return b.String()
}

// optionKey returns the name of an option, which is the text before the first ":".
func optionKey(option string) string {
	key, _, _ := strings.Cut(option, ":")
	return key
}

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
