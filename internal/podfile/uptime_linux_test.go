// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"testing"
	"time"
)

// TestEvent_HasExpired: whether the runtime has stopped waiting does not depend on how the node's
// clock was set while the event was on its way.
func TestEvent_HasExpired(t *testing.T) {
	for name, c := range map[string]struct {
		after    time.Duration // of the event
		clockSet time.Duration // forward, since then
		old      bool          // the relay is older than Expires
		want     bool
	}{
		"in time":                     {after: time.Hour},
		"late":                        {after: -time.Second, want: true},
		"in time, clock set forward":  {after: time.Hour, clockSet: 2 * time.Hour},
		"late, clock set back":        {after: -time.Second, clockSet: -2 * time.Hour, want: true},
		"in time, of an older relay":  {after: time.Hour, old: true},
		"late, of an older relay":     {after: -time.Second, old: true, want: true},
		"clock set forward, the same": {after: time.Hour, clockSet: 2 * time.Hour, old: true, want: true},
	} {
		var sent Event
		sent.ExpireAfter(c.after)
		sent.Deadline = sent.Deadline.Add(-c.clockSet)
		if c.old {
			sent.Expires = 0
		}
		var line bytes.Buffer
		if err := Write(&line, sent); err != nil {
			t.Fatal(err)
		}
		if err := Read(&line, func(e Event) error {
			if got := e.HasExpired(); got != c.want {
				t.Errorf("%s: expired %t, want %t", name, got, c.want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if new(Event).HasExpired() {
		t.Error("an event that does not say when it expires has expired")
	}
}
