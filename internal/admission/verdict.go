// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Verdict is what an admission server answers. The zero value admits the object.
type Verdict struct {
	Denied   string   // why; "": it is not
	Warnings []string // for who applies the object
}

// NewVerdict returns the verdict that follows from the findings in o. A pod with an error is denied:
// it would not start, or not as it says. An object that makes pods is not, for it may
// be in use, and who applies it may have no say in its namespace; its author is
// warned. What the API server refuses itself is left to it, in its own words.
func NewVerdict(o Object, found []policy.Finding) Verdict {
	var v Verdict
	var reasons []string
	for _, f := range found {
		switch {
		case f.Severity == policy.SeverityInfo:
		case f.EnforcedBy == policy.EnforcedByAPIServer && !(f.Code == CodeGeneratedHostname && acceptedFirst(&o)):
		case o.Kind == KindPod && f.IsError():
			reasons = append(reasons, sentence(f))
		default:
			v.Warnings = append(v.Warnings, sentence(f))
		}
	}
	v.Denied = strings.Join(reasons, ". ")
	return v
}

func sentence(f policy.Finding) string { return f.Field + ": " + f.Message + "; " + f.Hint }
