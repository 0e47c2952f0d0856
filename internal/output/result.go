// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// A ResultWriter writes the result of a command to its standard output. Its errors say so, because
// that of a full disk or a closed descriptor does not.
type ResultWriter struct{ io.Writer }

// Write writes p.
func (w ResultWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing the result: %w", err)
	}
	return n, nil
}

// WriteFileFindings writes findings about the configuration file at path: as JSON Lines if the
// format is json, otherwise as text with hints.
func WriteFileFindings(w io.Writer, format, path string, found []v1alpha1.Finding) (err error) {
	for _, f := range found {
		if format == formatJSON {
			err = json.NewEncoder(w).Encode(f)
		} else {
			_, err = fmt.Fprintf(w, "%s:%d:%d: %s: %s: %s (%s)\nhint: %s\n",
				path, f.Line, f.Column, f.Severity, f.Field, f.Message, f.Code, f.Hint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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

// visible escapes what a terminal interprets instead of printing it, as in a Go literal:
// control characters, escape sequences and marks that change the direction of text. The author
// of a manifest controls the texts.
func visible(s string) string {
	if !strings.ContainsFunc(s, isInvisible) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case isInvisible(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isInvisible(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
