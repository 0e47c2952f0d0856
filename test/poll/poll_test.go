// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package poll

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil_Done(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		Until(t, "the third call", func() bool { calls++; return calls == 3 })
		if calls != 3 {
			t.Errorf("called %d times", calls)
		}
	})
}

// failing is a test that records its failure.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

// Fatalf ends the test as that of testing.T does, which ends its goroutine.
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

func TestUntilNil_Limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			UntilNil(f, "a name", func() error { return errors.New("NXDOMAIN") }, bytes.NewBufferString("the log"))
		}()
		for _, want := range []string{"a name", "NXDOMAIN", "the log"} {
			if !strings.Contains(f.message, want) {
				t.Errorf("failed with %q, want %q in it", f.message, want)
			}
		}
		if took := time.Since(began); took < limit || took > limit+2*maxPause {
			t.Errorf("failed after %v, want %v", took, limit)
		}
	})
}
