// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
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

// visibleLines is visible for a text whose line breaks stay.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return strings.Join(lines, "\n")
}

func isInvisible(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// WriteError writes each of the errors that err joins, with its hint.
func WriteError(w io.Writer, err error) {
	if err == nil {
		return
	}
	for _, e := range excerpt.Unjoin(err) {
		fmt.Fprintf(w, "dnsconfigurer: %s\n", visible(e.Error()))
		if input, ok := errors.AsType[*kube.InputError](e); ok && input.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", visible(input.Hint))
		}
	}
}

// WriteJSON writes v as indented JSON, for a result that is one object.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// WriteNotes writes what a command has passed over in its input: the notes of a manifest, and
// one about all its unknown fields.
func WriteNotes(w io.Writer, m kube.Manifest) {
	WriteError(w, errors.Join(append(m.Notes, kube.NoteUnknown(m.Unknown))...))
}

// WriteFindings writes findings about a node.
func WriteFindings(w io.Writer, findings []policy.Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "dnsconfigurer: %s: %s\nhint: %s\n", f.Severity, visible(f.Message), hint(f))
	}
}

// hint returns the hint of f, and how many findings with its code are left out after it.
func hint(f policy.Finding) string {
	if f.More == 0 {
		return visible(f.Hint)
	}
	return fmt.Sprintf("%s\nand %d more %s", visible(f.Hint), f.More, f.Code)
}

// Findings converts findings about a node to their JSON form. The result is never nil.
func Findings(findings []policy.Finding) []v1alpha1.Finding {
	list := make([]v1alpha1.Finding, 0, len(findings))
	for _, f := range findings {
		list = append(list, v1alpha1.Finding{
			Code:       string(f.Code),
			Severity:   string(f.Severity),
			EnforcedBy: string(f.EnforcedBy),
			Reason:     f.Reason,
			Field:      f.Field,
			Message:    f.Message,
			Hint:       f.Hint,
			More:       f.More,
		})
	}
	return list
}

// findingsAt converts findings to their JSON form, with their places.
func findingsAt(place func(field string) kube.Location, findings []policy.Finding) []v1alpha1.Finding {
	list := Findings(findings)
	for i, f := range findings {
		if !aboutNode(f) {
			at := place(f.Field)
			list[i].Line, list[i].Column = at.Line, at.Column
		}
	}
	return list
}

// aboutNode reports whether a finding is about the node instead of a pod.
func aboutNode(f policy.Finding) bool {
	return f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS
}
