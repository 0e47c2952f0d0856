// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

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
