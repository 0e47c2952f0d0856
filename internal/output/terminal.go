// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"io"
	"os"
	"runtime"
)

// IsTerminal reports whether w is a terminal that shows colors, and the user has not refused
// them (no-color.org).
func IsTerminal(w io.Writer) bool {
	if result, ok := w.(ResultWriter); ok {
		w = result.Writer
	}
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || runtime.GOOS == "windows" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
