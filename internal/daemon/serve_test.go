// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// TestServe: a server has a log in the format, whose first line has the version, and its error is
// reported in the same format.
func TestServe(t *testing.T) {
	failed := errors.New("no address")
	for _, tt := range []struct {
		name   string
		serve  func(io.Writer, string, string, func(daemon.Process) error) error
		writer bool
	}{
		{"Serve", daemon.Serve, false},
		{"ServeOnNode", daemon.ServeOnNode, true},
	} {
		var log bytes.Buffer
		err := tt.serve(&log, "json", "v1.2.3", func(p daemon.Process) error {
			if (p.Writer != nil) != tt.writer || p.Reload == nil {
				t.Errorf("%s: %+v", tt.name, p)
			}
			p.Log.Info("serving")
			return failed
		})
		if failure, ok := errors.AsType[daemon.Failure](err); !ok || failure.Format != "json" || !errors.Is(err, failed) {
			t.Errorf("%s: %v, want a Failure in JSON", tt.name, err)
		}
		started, rest, _ := strings.Cut(log.String(), "\n")
		if !strings.HasSuffix(started, `"msg":"starting","version":"v1.2.3"}`) || !strings.Contains(rest, `"msg":"serving"`) {
			t.Errorf("%s: log %s", tt.name, log.String())
		}
		if err := tt.serve(&log, "text", "", func(daemon.Process) error { return nil }); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := tt.serve(&log, "xml", "", nil); err == nil {
			t.Errorf("%s: a log in XML", tt.name)
		}
	}
}
