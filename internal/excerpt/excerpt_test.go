// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package excerpt_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

func TestText(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, tt := range []struct {
		name, text, want string
	}{
		{"empty", "", ""},
		{"at the limit", a(100), a(100)},
		{"beyond the limit", a(101), a(60) + "... (41 bytes left out)"},
		{"character at the boundary", a(59) + "\u00e9" + a(100), a(59) + "... (102 bytes left out)"},
		{"newlines", strings.Repeat("\n", 100), strings.Repeat("\n", 10) + "... (90 bytes left out)"},
		{"newlines at the limit", strings.Repeat("\n", 16), strings.Repeat("\n", 16)},
		{"not UTF-8", strings.Repeat("\xff", 17), strings.Repeat("\xff", 10) + "... (7 bytes left out)"},
	} {
		if got := excerpt.Text(tt.text, 100); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	long := strings.Repeat("é", 70)
	for _, tt := range []struct{ text, want string }{
		{"", `""`},
		{"ndots", `"ndots"`},
		{long, `"` + long + `"`},
		{long + "x", `"` + long + `..."`},
		{"a\nb\t\"c\\\x00", `"a\nb\t\"c\\\x00"`},
		{"caf\xe9\ufffd", `"caf\xe9�"`},
		{"\x1b[1m\u200b\u202e\u00a0\x7f", `"?[1m????"`},
	} {
		if got := excerpt.Quote(tt.text); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestList(t *testing.T) {
	many := slices.Repeat([]string{"ndots:5"}, 200_000)
	long := slices.Repeat([]string{strings.Repeat("a", 1000)}, 3)
	for _, tt := range []struct {
		name   string
		values []string
		n      int
		last   string
	}{
		{"empty", nil, 0, ""},
		{"at the limit", many[:excerpt.MaxEntries], excerpt.MaxEntries, "ndots:5"},
		{"one more", many[:excerpt.MaxEntries+1], excerpt.MaxEntries + 1, "and 1 more"},
		{"many", many, excerpt.MaxEntries + 1, "and 199990 more"},
		{"long", long, 3, strings.Repeat("a", 213) + "... (787 bytes left out)"},
		{"many long", slices.Repeat(long, 10), 5, "and 26 more"},
	} {
		got := excerpt.List(tt.values)
		if len(got) != tt.n || tt.n > 0 && got[tt.n-1] != tt.last {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}

// FuzzText checks the limit, quoted as in a log line and as in JSON, and that the number
// accounts for every byte.
func FuzzText(f *testing.F) {
	f.Add("a\n\"\\\xff\u00e9\U0001f600\U000e0001")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.Repeat(s, 20)
		got := excerpt.Text(s, 100)
		if n := len(strconv.Quote(got)) - 2; n > 100 {
			t.Errorf("%q has %d bytes in quotes", got, n)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if text, number, cut := strings.Cut(got, "... ("); cut && got != s {
			var n int
			if _, err := fmt.Sscan(number, &n); err != nil || len(text)+n != len(s) || !strings.HasPrefix(s, text) {
				t.Errorf("%q accounts for %d of %d bytes, %v", got, len(text)+n, len(s), err)
			}
		} else if got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	})
}

func TestPrefix(t *testing.T) {
	wrapped := fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{io.EOF, "f: EOF"},
		{errors.Join(io.EOF, errors.Join(wrapped, io.ErrNoProgress)),
			"f: EOF\nf: wrapped: unexpected EOF\nf: multiple Read calls return no data or error"},
	} {
		got := excerpt.Prefix("f", tt.err)
		if got.Error() != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		for _, e := range excerpt.Unjoin(tt.err) {
			if !errors.Is(got, e) {
				t.Errorf("%q does not wrap %q", got, e)
			}
		}
	}
}

func TestClosest(t *testing.T) {
	candidates := []string{"dnsPolicy", "dnsConfig", "os", "spec", "hostname"}
	for _, tt := range []struct{ word, want string }{
		{"dnsPolcy", "dnsPolicy"},
		{"dnspolicy", "dnsPolicy"},
		{"dnsPloicy", "dnsPolicy"},
		{"dnsPol", ""},
		{"dnsConfigs", "dnsConfig"},
		{"hostUsers", ""},
		{"hsotnmae", "hostname"},
		{"OS", "os"},
		{"so", ""},
		{"o", ""},
		{"spce", "spec"},
		{"peck", ""},
		{"", ""},
	} {
		got, ok := excerpt.Closest(tt.word, candidates)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("Closest(%q) = %q, %v, want %q", tt.word, got, ok, tt.want)
		}
	}
}
