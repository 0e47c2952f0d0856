// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

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
