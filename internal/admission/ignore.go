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
// or one of its template's, ignores. Errors cannot be ignored there: the author of a pod could
// switch off a rule of the cluster.
func WithoutIgnored(findings []policy.Finding, annotations ...map[string]string) []policy.Finding {
	var codes []string
	for _, a := range annotations {
		for code := range strings.SplitSeq(a[IgnoreAnnotation], ",") {
			codes = append(codes, strings.TrimSpace(code))
		}
	}
	return slices.DeleteFunc(slices.Clone(findings), func(f policy.Finding) bool {
		return !f.IsError() && slices.Contains(codes, string(f.Code))
	})
}
