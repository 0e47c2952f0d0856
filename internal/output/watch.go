// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"context"
	"fmt"
	"io"
	"time"
)

// watchInterval is the pause between two outputs of Watch.
const watchInterval = 2 * time.Second

// Watch calls write again after each interval until ctx ends, which is not an error. It clears a
// terminal before each output.
func Watch(ctx context.Context, out io.Writer, write func(context.Context, io.Writer) error) error {
	for ctx.Err() == nil {
		if IsTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J") // ECMA-48: cursor to the first line, erase the page
		}
		if err := write(ctx, out); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
	}
	return nil
}
