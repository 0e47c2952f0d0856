// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestParse_Rules has cases for each rule of the kubelet (docs/checks.md). want is
// "nameservers | searches | options" with entries as text@line.
func TestParse_Rules(t *testing.T) {
	tests := []struct{ rule, text, want string }{
		{"empty file", "", "| |"},
		{"plain", "nameserver 192.0.2.1\nsearch corp.example lan\noptions ndots:2 edns0\n",
			"192.0.2.1@1 | corp.example@2 lan@2 | ndots:2@3 edns0@3"},
		{"no final newline", "nameserver 192.0.2.1", "192.0.2.1@1 | |"},

		{"H3 CRLF is white space", "nameserver 192.0.2.1\r\nsearch a\r\n", "192.0.2.1@1 | a@2 |"},
		{"H3 a lone CR ends no line", "nameserver 192.0.2.1\rnameserver 192.0.2.2\n", "192.0.2.1@1 | |"},
		{"H3 Unicode's blanks part values", "search a\u00a0b\u0085c\u2003d\n", "| a@1 b@1 c@1 d@1 |"},
		{"H3 a BOM hides its line", "\ufeffnameserver 192.0.2.1\nsearch a\n", "| a@2 |"},
		{"H3 NUL stays in the value", "search a\x00b\n", "| a\x00b@1 |"},
		{"H3 a backslash continues nothing", "search a \\\nb\n", "| a@1 \\@1 |"},
		{"H3 indented", "\t nameserver 192.0.2.1\n", "192.0.2.1@1 | |"},
		{"H3 comment", "# nameserver 192.0.2.1\n  #search a\n", "| |"},
		{"H4 a semicolon does not start a comment", ";nameserver 192.0.2.1\n; search a\nsearch ; b\n", "| ;@3 b@3 |"},
		{"H5 no remarks behind values", "search a # b\noptions ndots:3 # three\nnameserver 192.0.2.1 # x\n",
			"192.0.2.1@3 | a@1 #@1 b@1 | ndots:3@2 #@2 three@2"},
		{"H6 other keywords", "domain a\nsortlist 192.0.2.0\noption ndots:1\nNameserver 192.0.2.1\n" +
			"nameserver=192.0.2.1\nSEARCH a\n", "| |"},
		{"H7 any text is an address", "nameserver fe80::1%eth0\nnameserver dns.example\n" +
			"nameserver 192.0.2.1,192.0.2.2\n", "fe80::1%eth0@1 dns.example@2 192.0.2.1,192.0.2.2@3 | |"},
		{"H7 duplicates stay", "nameserver 192.0.2.1\nnameserver 192.0.2.1\n", "192.0.2.1@1 192.0.2.1@2 | |"},
		{"H8 the last search line wins", "search a b\nsearch c\n", "| c@2 |"},
		{"H8 and may be empty", "search a b\nsearch\n", "| |"},
		{"H8 the root is dropped, one dot cut", "search . a. b.. .. ...\n", "| a@1 b.@1 .@1 ..@1 |"},
		{"H8 duplicates stay", "search a a A\n", "| a@1 a@1 A@1 |"},
		{"H9 options gather, the last value wins in the first place",
			"options ndots:1 rotate\noptions timeout:2 ndots:3\n", "| | ndots:3@2 rotate@1 timeout:2@2"},
		{"H9 in one line too", "options ndots:1 ndots:2\n", "| | ndots:2@1"},
		{"H9 the key ends at the first colon", "options ndots ndots: a:b:c a:d\n", "| | ndots:@1 a:d@1"},
		{"H9 options alone changes nothing", "options ndots:1\noptions\n", "| | ndots:1@1"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			f := Parse(tt.text)
			if got := list(f); got != strings.TrimSpace(tt.want) {
				t.Errorf("Parse(%q)\n got %q\nwant %q", tt.text, got, tt.want)
			}
			if f.Err != nil {
				t.Errorf("error %v", f.Err)
			}
		})
	}
}

func list(f File) string {
	var b strings.Builder
	for i, l := range [][]Entry{f.Nameservers, f.Searches, f.Options} {
		if i > 0 {
			b.WriteString(" |")
		}
		for _, e := range l {
			fmt.Fprintf(&b, " %s@%d", e.Text, e.Line)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestParse_Ignored(t *testing.T) {
	f := Parse(`# comments and blank lines are not reported

domain corp.example
nameserver
nameserver 192.0.2.1 # office
search a. b
search . c
options ndots:1
options ndots:2
`)
	want := []IgnoredEntry{
		{Entry: Entry{Text: "domain corp.example", Line: 3}, Reason: reasonUnknownKeyword},
		{Entry: Entry{Text: "nameserver", Line: 4}, Reason: reasonNoValue},
		{Entry: Entry{Text: "# office", Line: 5}, Reason: reasonTrailingText},
		{Entry: Entry{Text: "a", Line: 6}, Reason: reasonReplaced, ReplacedBy: 7},
		{Entry: Entry{Text: "b", Line: 6}, Reason: reasonReplaced, ReplacedBy: 7},
		{Entry: Entry{Text: ".", Line: 7}, Reason: reasonRootDomain},
		{Entry: Entry{Text: "ndots:1", Line: 8}, Reason: reasonOverridden, ReplacedBy: 9},
	}
	if diff := cmp.Diff(want, f.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	const refused = "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
	if f.Err == nil || f.Err.Error() != refused {
		t.Errorf("error %v, want %q", f.Err, refused)
	}
	if got, want := list(f), "192.0.2.1@5 | c@7 | ndots:2@9"; got != want {
		t.Errorf("the rest of the file: got %q, want %q", got, want)
	}
}

func TestRead_Errors(t *testing.T) {
	fits := strings.Repeat("#", MaxFile-1)
	if f := Read(strings.NewReader(fits)); f.Err != nil {
		t.Errorf("file of MaxFile-1 bytes: %v", f.Err)
	}
	const tooLarge = "Encountered error while parsing resolv conf file. Error: the read limit is reached"
	if f := Read(strings.NewReader(fits + "#")); f.Err == nil || f.Err.Error() != tooLarge {
		t.Errorf("file of MaxFile bytes: %v, want %q", f.Err, tooLarge)
	}
	failing := io.MultiReader(strings.NewReader("nameserver 192.0.2.1\n"), iotest.ErrReader(errors.New("is a directory")))
	if f := Read(failing); f.Err == nil || !strings.HasSuffix(f.Err.Error(), "Error: is a directory") {
		t.Errorf("failing reader: %v", f.Err)
	}
}

// TestParse_ManyOptions parses a large file without repeated options. It takes minutes if the
// work is quadratic in the number of options.
func TestParse_ManyOptions(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 5<<20; i++ {
		fmt.Fprintf(&b, "options o%d:1\nsearch s%d\n", i, i)
	}
	f := Parse(b.String())
	if len(f.Options) < 100_000 || len(f.Searches) != 1 {
		t.Errorf("got %d options and %d searches", len(f.Options), len(f.Searches))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("nameserver 192.0.2.1 # x\nsearch a. . b\n;x\r\noptions ndots:1 ndots:2\nnameserver\n")
	f.Add("search a\x00b \u00a0c\n\ufeffsearch d\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := Parse(text)
		lines := strings.Count(text, "\n") + 1
		all := slices.Concat(file.Nameservers, file.Searches, file.Options)
		for _, i := range file.Ignored {
			all = append(all, i.Entry)
		}
		for _, e := range all {
			if e.Line < 1 || e.Line > lines {
				t.Errorf("entry %q in line %d of %d", e.Text, e.Line, lines)
			}
		}
		keys := map[string]bool{}
		for _, o := range file.Options {
			if key := optionKey(o.Text); keys[key] {
				t.Errorf("option %q twice", key)
			} else {
				keys[key] = true
			}
		}
		// Parsing the text of the result gives the same result, except for trailing
		// dots; each pass removes one.
		c := file.Config()
		if slices.ContainsFunc(c.Searches, func(s string) bool { return s == "" || strings.HasSuffix(s, ".") }) {
			return
		}
		if again := Parse(c.String()).Config(); !cmp.Equal(c, again) {
			t.Errorf("parse of format (-first +second):\n%s", cmp.Diff(c, again))
		}
	})
}

func TestConfig_String(t *testing.T) {
	c := Config{
		Nameservers: []string{"192.0.2.1", "2001:db8::1"},
		Searches:    []string{"a.example", "b"},
		Options:     []string{"ndots:5", "edns0"},
	}
	const want = "nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch a.example b\noptions ndots:5 edns0\n"
	if got := c.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Config{}).String(); got != "" {
		t.Errorf("empty config: %q", got)
	}
}

func TestConfig_Equal(t *testing.T) {
	c := Config{Nameservers: []string{"a", "b"}, Searches: []string{"x", "y"}, Options: []string{"1", "2"}}
	same := Config{Nameservers: []string{"a", "b"}, Searches: []string{"x", "y"}, Options: []string{"2", "1"}}
	if !c.Equal(same) {
		t.Error("not equal with options in another order")
	}
	for _, other := range []Config{
		{Nameservers: []string{"b", "a"}, Searches: c.Searches, Options: c.Options},
		{Nameservers: c.Nameservers, Searches: []string{"y", "x"}, Options: c.Options},
		{Nameservers: c.Nameservers, Searches: c.Searches, Options: []string{"1", "1"}},
		{},
	} {
		if c.Equal(other) {
			t.Errorf("equal to %v", other)
		}
	}
}
