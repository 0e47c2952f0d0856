// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// checkOutput checks the value of -o.
func checkOutput(value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return usageError{fmt.Errorf("-o %q: want %s", value, strings.Join(allowed, ", "))}
	}
	return nil
}

// isTerminal reports whether w is a terminal that shows colors, and the user has not refused
// them (no-color.org).
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || runtime.GOOS == "windows" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
