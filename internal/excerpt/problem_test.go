// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package excerpt_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

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
