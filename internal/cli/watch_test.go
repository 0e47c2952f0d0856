// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestWatch(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name   string
		result error // of the third output, during which the context ends if it is nil
		want   error
	}{
		{"until it is interrupted", nil, nil},
		{"until an error", failed, failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var out strings.Builder
			outputs := 0
			err := Watch(ctx, &out, func(ctx context.Context, out io.Writer) error {
				outputs++
				fmt.Fprintln(out, outputs)
				switch {
				case outputs < 3:
					return nil
				case tt.result == nil:
					interrupt()
					return ctx.Err()
				}
				return tt.result
			})
			if !errors.Is(err, tt.want) || out.String() != "1\n2\n3\n" {
				t.Errorf("%s: %v, %q", tt.name, err, out.String())
			}
		})
	}
}
