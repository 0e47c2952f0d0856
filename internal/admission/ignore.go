// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// IgnoreAnnotation lists the codes of findings that the author of an object knows about,
// separated by commas.
const IgnoreAnnotation = "dnsconfigurer.dev/ignore"

// WithoutIgnored returns the findings in an object without those that one of its annotations,
// or one of its template's, ignores. An annotation cannot ignore errors: otherwise the author of a
// pod could switch off a rule of the cluster. The time is linear in the size of the annotations.
func WithoutIgnored(findings []policy.Finding, annotations ...map[string]string) []policy.Finding {
	ignored := map[string]bool{} // of the codes of findings
	for _, f := range findings {
		if !f.IsError() {
			ignored[string(f.Code)] = false
		}
	}
	for _, a := range annotations {
		for code := range strings.SplitSeq(a[IgnoreAnnotation], ",") {
			code = strings.TrimSpace(code)
			if _, found := ignored[code]; found {
				ignored[code] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(findings), func(f policy.Finding) bool {
		return !f.IsError() && ignored[string(f.Code)]
	})
}
