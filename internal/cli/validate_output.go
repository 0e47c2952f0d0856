// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
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

// Validation writes the findings about objects. Call Close at the end.
type Validation struct {
	Stdout  io.Writer
	Format  string // text, json, github or sarif
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
	return WriteJSON(v.Stdout, newSARIFLog(v.Version, v.results))
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
	counts := []string{kube.Plural(s.Checked, "object") + " checked"}
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
			counts = append(counts, kube.Plural(n, string(severity)))
		}
	}
	if s.HidesInfo && s.Found[policy.SeverityInfo] > 0 {
		counts[len(counts)-1] += " (--fail-on info)"
	}
	if s.Ignored > 0 {
		counts = append(counts, fmt.Sprintf("%d ignored", s.Ignored))
	}
	if s.Skipped > 0 {
		counts = append(counts, kube.Plural(s.Skipped, "rule")+" skipped: set --resolv-conf")
	}
	fmt.Fprintf(w, "dnsconfigurer: %s\n", visible(strings.Join(counts, ", ")))
}

// maxKinds is the number of kinds that a summary names.
const maxKinds = 5

// annotate writes a workflow command of GitHub Actions
// (docs.github.com/actions/reference/workflow-commands-for-github-actions). The line is
// left out for the output of a template, because the template's lines are others.
func (v *Validation) annotate(severity policy.Severity, at kube.Location, title, text string) error {
	level := map[policy.Severity]string{policy.SeverityError: "error", policy.SeverityWarning: "warning",
		policy.SeverityInfo: "notice"}[severity]
	var properties []string
	add := func(name string, value any) {
		properties = append(properties, name+"="+strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escape(fmt.Sprint(value))))
	}
	switch {
	case at.Source != "":
		add("file", visible(at.Source))
	case at.File != "" && at.File != kube.Stdin:
		add("file", visible(at.File))
		if at.Line > 0 {
			add("line", at.Line)
		}
		if at.Column > 0 {
			add("col", at.Column)
		}
	}
	add("title", title)
	_, err := fmt.Fprintf(v.Stdout, "::%s %s::%s\n", level, strings.Join(properties, ","), escape(text))
	return err
}

func escape(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// The parts of SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0) that code scanning
// services display.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       map[string]sarifDriver `json:"tool"` // driver
		ColumnKind string                 `json:"columnKind"`
		Results    []sarifResult          `json:"results"` // null means that the tool did not run (SARIF 3.14.23)
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string     `json:"id"`
		ShortDescription *sarifText `json:"shortDescription,omitempty"`
		HelpURI          string     `json:"helpUri"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`

		// Fingerprints keep the identity of a result when lines move (SARIF 3.27.17).
		Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact map[string]string `json:"artifactLocation"` // uri
			Region   *sarifRegion      `json:"region,omitempty"`
		} `json:"physicalLocation"`
		Logical []map[string]string `json:"logicalLocations,omitempty"` // fullyQualifiedName
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

const (
	homepage = "https://github.com/dnsconfigurer/dnsconfigurer"
	rulePage = homepage + "/blob/main/docs/checks.md#rules"
)

// newSARIFResult returns the result of a finding, with what does not change with the lines of the file: the object, and a hash
// of object, field and code; "": there is no object. It has no region for the output of a template, because the template's
// lines are others. A relative path is relative to the directory of the run, which for code scanning services is the root of
// the repository.
func newSARIFResult(severity policy.Severity, at kube.Location, code, text, object string) sarifResult {
	level := map[policy.Severity]string{policy.SeverityError: "error", policy.SeverityWarning: "warning",
		policy.SeverityInfo: "note"}[severity]
	r := sarifResult{RuleID: code, Level: level, Message: sarifText{text}}
	if object != "" {
		sum := sha256.Sum256([]byte(object + "\n" + at.Field + "\n" + code))
		r.Fingerprints = map[string]string{"objectFieldCode/v1": hex.EncodeToString(sum[:16])}
	}
	file := cmp.Or(at.Source, at.File)
	if file == "" {
		return r
	}
	uri := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		uri.Scheme = "file"
	}
	var l sarifLocation
	l.Physical.Artifact = map[string]string{"uri": uri.String()}
	if at.Source == "" && at.Line > 0 {
		l.Physical.Region = &sarifRegion{at.Line, at.Column}
	}
	if object != "" {
		l.Logical = []map[string]string{{"fullyQualifiedName": object}}
	}
	r.Locations = []sarifLocation{l}
	return r
}

func newSARIFLog(version string, results []sarifResult) sarifLog {
	driver, used := sarifDriver{"dnsconfigurer", version, homepage, []sarifRule{}}, map[string]bool{}
	for _, r := range results {
		used[r.RuleID] = true
	}
	for _, d := range admission.CodeDocs() {
		if used[string(d.Code)] {
			driver.Rules = append(driver.Rules, sarifRule{string(d.Code), &sarifText{d.Text}, rulePage})
		}
	}
	if used[codeUnreadable] {
		driver.Rules = append(driver.Rules, sarifRule{codeUnreadable, nil, rulePage})
	}
	const schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	run := sarifRun{map[string]sarifDriver{"driver": driver}, "unicodeCodePoints", append([]sarifResult{}, results...)}
	return sarifLog{schema, "2.1.0", []sarifRun{run}}
}
