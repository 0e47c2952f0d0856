// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// WriteError writes each of the errors that err joins, with its hint.
func WriteError(w io.Writer, err error) {
	if err == nil {
		return
	}
	for _, e := range multierr.Unjoin(err) {
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
	case at.File != "" && at.File != manifest.Stdin:
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

// escape escapes the characters that end a workflow command.
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
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"` // never null: that would mean that the tool did not run
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string `json:"id"`
		HelpURI string `json:"helpUri"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysicalLocation `json:"physicalLocation"`
	}
	sarifPhysicalLocation struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
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

// newSARIFResult returns the result of a finding. It has no region for the output of a
// template, because the template's lines are others.
func newSARIFResult(severity policy.Severity, at kube.Location, code, text string) sarifResult {
	level := map[policy.Severity]string{policy.SeverityError: "error", policy.SeverityWarning: "warning",
		policy.SeverityInfo: "note"}[severity]
	r := sarifResult{RuleID: code, Level: level, Message: sarifText{text}}
	file := cmp.Or(at.Source, at.File)
	if file == "" {
		return r
	}
	l := sarifPhysicalLocation{ArtifactLocation: sarifArtifact{fileURI(file)}}
	if at.Source == "" && at.Line > 0 {
		l.Region = &sarifRegion{at.Line, at.Column}
	}
	r.Locations = []sarifLocation{{l}}
	return r
}

// fileURI returns a path as a URI reference. A relative one is relative to the directory of
// the run, which for code scanning services is the root of the repository.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}

func newSARIFLog(version string, results []sarifResult) sarifLog {
	if results == nil {
		results = []sarifResult{} // null means that the tool did not run (SARIF 3.14.23)
	}
	rules := []sarifRule{}
	for _, r := range results {
		if rule := (sarifRule{r.RuleID, rulePage}); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:       sarifTool{sarifDriver{"dnsconfigurer", version, homepage, rules}},
			ColumnKind: "unicodeCodePoints",
			Results:    results,
		}},
	}
}
