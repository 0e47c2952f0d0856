// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"slices"
	"strings"
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

// Reason is the reason why the kubelet ignores an entry. [Reason.Rule] identifies it.
type Reason uint8

const (
	_                    Reason = iota
	reasonUnknownKeyword        // a keyword other than nameserver, search and options
	reasonNoValue               // nameserver without an address
	reasonTrailingText          // text after the first address of a nameserver line
	reasonRootDomain            // the search domain "."
	reasonReplaced              // a later search line replaces the list
	reasonOverridden            // a later value of the same option wins
)

var reasons = [...]struct{ rule, text string }{
	reasonUnknownKeyword: {"H6", "the kubelet reads only nameserver, search and options lines"},
	reasonNoValue:        {"H7", "a nameserver line needs an address"},
	reasonTrailingText:   {"H7", "a nameserver line has one address"},
	reasonRootDomain:     {"H8", `the search domain "." is dropped`},
	reasonReplaced:       {"H8", "a later search line replaces this one"},
	reasonOverridden:     {"H9", "a later value of the same option wins"},
}

// Rule returns the identifier of the rule in docs/checks.md, such as "H6". It returns "" if r
// is not a reason.
func (r Reason) Rule() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].rule
}

// String describes the rule in one sentence. The text may change in any release.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].text
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

// appendText appends c in the format of resolv.conf(5). Nameserver lines come first, so that
// a resolver that reads the file in pieces has them in the first piece. An empty list gives
// no line.
func (c Config) appendText(b []byte) []byte {
	for _, s := range c.Nameservers {
		b = append(b, "nameserver "...)
		b = append(b, s...)
		b = append(b, '\n')
	}
	b = appendLine(b, "search", c.Searches)
	return appendLine(b, "options", c.Options)
}

// String returns c in the format of resolv.conf(5). Nameservers come first.
func (c Config) String() string { return string(c.appendText(nil)) }

func appendLine(b []byte, keyword string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(b, keyword...)
	for _, v := range values {
		b = append(b, ' ')
		b = append(b, v...)
	}
	return append(b, '\n')
}

// optionKey returns the name of an option, which is the text before the first ":".
func optionKey(option string) string {
	key, _, _ := strings.Cut(option, ":")
	return key
}
