// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

// File is a resolv.conf as the kubelet reads it: what it says, where it says so,
// and what was passed over. The zero value is an empty file. A File is a value
// that several readers may share: nobody changes it after it was read.
type File struct {
	Path string // where it was read; "": nobody said

	Nameservers []Entry // in order, duplicates kept
	Searches    []Entry // of the last search line; without "."; one trailing dot cut
	Options     []Entry // one for each key, in order of the key's first line, with the last value

	// Ignored lists every other value and line, save comments and blank lines,
	// in the order in which it was found to be of no effect.
	Ignored []IgnoredEntry

	// Err is not nil when the kubelet refuses the file, and then has the
	// kubelet's words: it was not opened, not read to its end, or holds a
	// nameserver line without a value. What could be read is in the lists all
	// the same.
	Err error
}

// Entry is one value of a File.
type Entry struct {
	Text string
	Line int // 1 is the first
}

// IgnoredEntry is an entry that has no effect on pods.
type IgnoredEntry struct {
	Entry
	Reason     Reason
	ReplacedBy int // the line whose value applies instead; 0 if there is none
}

// Reason tells why an entry has no effect.
type Reason uint8

// The reasons, each with the rule of the kubelet's reader behind it.
const (
	_                    Reason = iota
	reasonUnknownKeyword        // only nameserver, search and options are keywords, in lower case
	reasonNoValue               // nameserver without an address
	reasonTrailingText          // text after the first address of a nameserver line
	reasonRootDomain            // the search domain "."
	reasonReplaced              // a later search line replaces the whole list
	reasonOverridden            // a later value for the same option
)

var reasons = [...]struct{ rule, text string }{
	reasonUnknownKeyword: {"H6", "the kubelet reads only nameserver, search and options lines"},
	reasonNoValue:        {"H7", "a nameserver line needs an address"},
	reasonTrailingText:   {"H7", "a nameserver line has one address"},
	reasonRootDomain:     {"H8", `the search domain "." is dropped`},
	reasonReplaced:       {"H8", "a later search line replaces this one"},
	reasonOverridden:     {"H9", "a later value of the same option wins"},
}

// Rule returns the rule of the kubelet's reader, as docs/rules.md names it.
// It is "" for a number that is no reason.
func (r Reason) Rule() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].rule
}

// String says in one sentence what the rule does.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].text
}

// Config returns what f says, without the lines.
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
