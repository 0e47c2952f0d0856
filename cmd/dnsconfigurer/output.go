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

	"github.com/spf13/cobra"
)

// formatFlag registers the flag -o, whose first format is the default. jsonl is another name
// of json: commands print JSON Lines, one object per line.
func formatFlag(cmd *cobra.Command, at *string, usage string, formats ...string) {
	*at = formats[0]
	cmd.Flags().VarP((*formatValue)(at), "output", "o", usage)
	completeFlag(cmd, "output", formats...)
}

// formatValue is the value of the flag -o.
type formatValue string

func (f *formatValue) Type() string   { return "string" }
func (f *formatValue) String() string { return string(*f) }

func (f *formatValue) Set(text string) error {
	if text == "jsonl" {
		text = "json"
	}
	*f = formatValue(text)
	return nil
}

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
