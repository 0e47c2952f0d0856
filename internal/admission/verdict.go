// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Verdict is the response of an admission server. The zero value allows the object.
type Verdict struct {
	Denied   string   // the reason; "": it is allowed
	Warnings []string // for the client
}

// NewVerdict returns the verdict that follows from the findings in o. A pod with an error is
// denied: it would not start, or not as specified. An object that creates pods is not denied
// but warned of: it may be in use, and the client may not be able to change its namespace.
// Findings for which the API server refuses the object are left to the API server.
func NewVerdict(o Object, findings []policy.Finding) Verdict {
	var v Verdict
	var reasons []string
	for _, f := range findings {
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
