// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Report says which findings are reported, and which of them deny a pod. The zero value reports
// all findings, and denies a pod for an error.
type Report struct {
	Ignore []policy.Code // of findings that are not reported
	DenyOn DenyOn
}

// DenyOn is the lowest severity of a finding for which a pod is denied. "" is DenyOnError.
type DenyOn string

// The values of DenyOn.
const (
	DenyOnError   DenyOn = "error"
	DenyOnWarning DenyOn = "warning"
	DenyNever     DenyOn = "never" // errors are warnings
)

// Filter returns the findings about an object that are reported, with the severities that
// follow from DenyOn. Its annotations cannot ignore what denies it.
func (r *Report) Filter(findings []policy.Finding, annotations ...map[string]string) []policy.Finding {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f policy.Finding) bool {
		return slices.Contains(r.Ignore, f.Code)
	})
	for i := range findings {
		switch f := &findings[i]; {
		case r.DenyOn == DenyNever && f.Severity == policy.SeverityError:
			f.Severity = policy.SeverityWarning
		case r.DenyOn == DenyOnWarning && f.Severity == policy.SeverityWarning:
			f.Severity = policy.SeverityError
		}
	}
	return WithoutIgnored(findings, annotations...)
}
