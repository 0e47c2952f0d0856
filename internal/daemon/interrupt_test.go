// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestInterruptible(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name        string
		interrupted bool
		takes       time.Duration
		want        string
	}{
		{"a call may take long", false, time.Hour, "failed"},
		{"an interrupted call returns its own error", true, interruptGrace - 1, "failed"},
		{"an interrupted call that does not return is abandoned", true, time.Hour, "ended before completion: interrupt"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			if tt.interrupted {
				interrupt(errors.New("interrupt"))
			}
			err := Interruptible(ctx, func() error {
				time.Sleep(tt.takes)
				return failed
			})
			if fmt.Sprint(err) != tt.want {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
			time.Sleep(tt.takes) // until an abandoned call has ended, as synctest wants
		})
	}
}
