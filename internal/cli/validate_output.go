// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The formats of a Validation.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatGitHub = "github"
	formatSARIF  = "sarif"
)

// ValidateFormats are the formats of a Validation.
var ValidateFormats = []string{formatText, formatJSON, formatGitHub, formatSARIF}

// Validation writes the findings about objects. Call Close at the end.
type Validation struct {
	Stdout  io.Writer
	Format  string // one of ValidateFormats
	Color   bool   // of the format text
	Verbose bool   // also write findings of severity info, as JSON does
	Version string // of this program, in SARIF

	results []sarifResult
}

// Subject is the object that findings are about.
type Subject struct {
	Kind, Namespace, Name string
	At                    func(field string) kube.Location

	owner string // kind and name of the controller, "": none
	path  string // of a pod in a List, such as "items[2]."
	pods  int    // of owner with the same finding, see grouped; 0: not grouped
}

// Write writes the findings about s.
func (v *Validation) Write(s Subject, findings []policy.Finding) error {
	if v.Format == formatJSON {
		at := s.At("")
		return json.NewEncoder(v.Stdout).Encode(v1alpha1.ValidateResult{
			File: at.File, Document: at.Document, Line: at.Line, Column: at.Column, Source: at.Source,
			Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, Owner: s.owner, Findings: findingsAt(s.At, findings),
		})
	}
	for _, f := range findings {
		if f.Severity == policy.SeverityInfo && !v.Verbose {
			continue
		}
		at := s.At(f.Field)
		at.Field = f.Field
		text := fmt.Sprintf("%s: %s: %s\nhint: %s", visible(s.String()), visible(f.Field), visible(f.Message), hint(f))
		if err := v.finding(f.Severity, at, string(f.Code), text, s.String()); err != nil {
			return err
		}
	}
	return nil
}

// finding writes a finding; object is "" if it is about a document that could not be read. In text the caller writes errors of
// documents to standard error.
func (v *Validation) finding(severity policy.Severity, at kube.Location, code, text, object string) error {
	switch v.Format {
	case formatGitHub:
		return v.annotate(severity, at, code, text)
	case formatSARIF:
		v.results = append(v.results, newSARIFResult(severity, at, code, text, object))
	case formatText:
		if object != "" {
			first, hint, _ := strings.Cut(text, "\n")
			_, err := fmt.Fprintf(v.Stdout, "%s: %s: %s (%s)\n%s\n",
				v.paint("1", place(at)), v.paint(severityColors[severity], string(severity)), first, code, hint)
			return err
		}
	}
	return nil
}

// WriteUnreadable writes each error that err joins, about a document that could not be read,
// in the formats that programs read. In all formats the caller writes errors to standard
// error.
func (v *Validation) WriteUnreadable(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range excerpt.Unjoin(err) {
		in, ok := errors.AsType[*kube.InputError](e)
		if !ok {
			in = &kube.InputError{Err: e}
		}
		text := visible(in.Text())
		if in.Hint != "" {
			text += "\nhint: " + visible(in.Hint)
		}
		if v.Format == formatJSON {
			err = json.NewEncoder(v.Stdout).Encode(v1alpha1.ValidateResult{
				File: in.File, Document: in.Document, Line: in.Line, Column: in.Column, Source: in.Source,
				Findings: []v1alpha1.Finding{}, Field: in.Field, Error: in.Err.Error(), Hint: in.Hint,
			})
		} else {
			err = v.finding(policy.SeverityError, in.Location, codeUnreadable, text, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// codeUnreadable is the code of a document that could not be read.
const codeUnreadable = "unreadable"

// Close writes what a format has at its end.
func (v *Validation) Close() error {
	if v.Format != formatSARIF {
		return nil
	}
	e := json.NewEncoder(v.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(newSARIFLog(v.Version, v.results))
}

// place returns a location, with the template that it comes from in brackets. A line of a
// log that begins with "::" is a command for GitHub Actions.
func place(at kube.Location) string {
	s := visible(at.String())
	if strings.HasPrefix(s, "::") {
		s = "./" + s
	}
	if at.Source == "" {
		return s
	}
	return s + " [" + visible(at.Source) + "]"
}

// severityColors are the colors of a terminal (ECMA-48, SGR).
var severityColors = map[policy.Severity]string{policy.SeverityError: "1;31", policy.SeverityWarning: "33", policy.SeverityInfo: "36"}

func (v *Validation) paint(color, s string) string {
	if !v.Color {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// Summary counts the results of a validation.
type Summary struct {
	Checked   int                     // objects
	Others    []kube.Object           // objects that are not checked
	Notes     int                     // files and documents that were passed over
	Found     map[policy.Severity]int // errors also in documents that could not be read
	HidesInfo bool                    // findings of severity info are not written
	Ignored   int                     // findings that the command line or an annotation ignores
	Skipped   int                     // rules that need the node's resolv.conf, which is not known
}

// Write writes the summary on one line.
func (s Summary) Write(w io.Writer) {
	counts := []string{count(s.Checked, "object") + " checked"}
	if len(s.Others) > 0 {
		kinds := map[string]bool{}
		for _, o := range s.Others {
			kinds[o.Kind] = true
		}
		list := slices.Sorted(maps.Keys(kinds))
		if n := len(list); n > maxKinds {
			list = append(list[:maxKinds], fmt.Sprintf("%d more kinds", n-maxKinds))
		}
		counts = append(counts, fmt.Sprintf("%d not checked (%s)", len(s.Others), strings.Join(list, ", ")))
	}
	if s.Notes > 0 {
		counts = append(counts, fmt.Sprintf("%d passed over", s.Notes))
	}
	for _, severity := range []policy.Severity{policy.SeverityError, policy.SeverityWarning, policy.SeverityInfo} {
		if n := s.Found[severity]; n > 0 || severity != policy.SeverityInfo {
			counts = append(counts, count(n, string(severity)))
		}
	}
	if s.HidesInfo && s.Found[policy.SeverityInfo] > 0 {
		counts[len(counts)-1] += " (--fail-on info)"
	}
	if s.Ignored > 0 {
		counts = append(counts, fmt.Sprintf("%d ignored", s.Ignored))
	}
	if s.Skipped > 0 {
		counts = append(counts, count(s.Skipped, "rule")+" skipped: set --resolv-conf")
	}
	fmt.Fprintf(w, "dnsconfigurer: %s\n", visible(strings.Join(counts, ", ")))
}

// maxKinds is the number of kinds that a summary names.
const maxKinds = 5

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
