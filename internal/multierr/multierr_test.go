// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package multierr_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
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
		got := multierr.Prefix("f", tt.err)
		if got.Error() != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		for _, e := range multierr.Unjoin(tt.err) {
			if !errors.Is(got, e) {
				t.Errorf("%q does not wrap %q", got, e)
			}
		}
	}
}
