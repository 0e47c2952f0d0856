// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package poll

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// limit is below the ten minutes after which go test ends a process, so that a test fails with
// its own message.
const limit = 4 * time.Minute

// The pause between two calls grows up to maxPause, which leaves a busy machine to the server that
// the test waits for.
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// Until calls done until it returns true. If that takes too long, the test fails, with what it
// waits for and the details, such as the log of a server. A condition must not become false again:
// done may be called much later than it becomes true.
func Until(t testing.TB, what string, done func() bool, details ...fmt.Stringer) {
	t.Helper()
	notDone := errors.New("the condition is false")
	UntilNil(t, what, func() error {
		if done() {
			return nil
		}
		return notDone
	}, details...)
}

// UntilNil calls try until it returns nil. If that takes too long, the test fails, with the last
// error, too.
func UntilNil(t testing.TB, what string, try func() error, details ...fmt.Stringer) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			var text strings.Builder
			for _, d := range details {
				fmt.Fprintf(&text, "\n%s", d)
			}
			t.Fatalf("waiting for %s: %v after %v%s", what, err, limit, text.String())
		}
		time.Sleep(pause)
	}
}
