// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

func TestLogFailure(t *testing.T) {
	two := errors.Join(errors.New("one"), errors.New("two"))
	for _, tt := range []struct {
		name, format string
		err          error
		lines        int
	}{
		{"text", "text", two, 0},
		{"JSON", "json", two, 2},
		{"the format of the server", "text", daemon.Failure{Err: two, Format: "json"}, 2},
		{"text of the server", "json", daemon.Failure{Err: two, Format: "text"}, 0},
	} {
		var out bytes.Buffer
		logged := daemon.LogFailure(&out, tt.format, tt.err)
		if n := strings.Count(out.String(), `"msg":"server failed","error":"`); logged != (tt.lines > 0) || n != tt.lines {
			t.Errorf("%s: %v, %d lines, want %d: %s", tt.name, logged, n, tt.lines, out.String())
		}
	}
}
