// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// AddRefusals adds the errors in o for which the API server refuses it, or the pods that it
// creates, to the findings of a decision about its pod. The engine accepts such a pod if the
// kubelet would; in a cluster it does not exist. Findings about a field that is refused are
// left out, except the kubelet's events.
func (r *Rules) AddRefusals(ctx context.Context, o Object, decided []policy.Finding) ([]policy.Finding, error) {
	all, err := r.Check(ctx, o)
	if err != nil {
		return nil, err
	}
	refusals := slices.DeleteFunc(all, func(f policy.Finding) bool {
		return f.EnforcedBy != policy.EnforcedByAPIServer || !f.IsError()
	})
	findings := slices.Clone(refusals)
	for _, f := range decided {
		replaced := slices.ContainsFunc(refusals, func(r policy.Finding) bool {
			return r.Field == f.Field || r.Code == CodeNoNameservers && f.Code == policy.CodeEmptyConfig
		})
		if !hasRefusal(f.Code) && (!replaced || f.Reason != "") {
			findings = append(findings, f)
		}
	}
	return findings, nil
}

// ManifestError returns the error with which the kubelet refuses the manifest of the static pod
// o, or "". findings are those of AddRefusals. Other pods have none: the API server refuses
// them before a kubelet has them. The fields are the kubelet's (pkg/kubelet/config,
// tryDecodeSinglePod), the reasons those of the findings.
func ManifestError(o Object, findings []policy.Finding) string {
	if o.Node == "" {
		return ""
	}
	var reasons []string
	more := 0
	for _, f := range findings {
		switch {
		case f.EnforcedBy != policy.EnforcedByAPIServer || !f.IsError():
		case len(reasons) == maxReasons:
			more += 1 + f.More
		default:
			reasons = append(reasons, f.Field+": "+f.Message)
			more += f.More
		}
	}
	switch {
	case reasons == nil:
		return ""
	case more > 0:
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	return "invalid pod: " + strings.Join(reasons, ", ")
}

// hasRefusal reports whether Check has its own error for every value about which the engine has a
// finding with this code. That error names the field of the object that the value is from.
func hasRefusal(code policy.Code) bool {
	switch code {
	case policy.CodeInvalidName, policy.CodeInvalidHostname, policy.CodeInvalidSubdomain,
		policy.CodeInvalidOverride, policy.CodeUnknownPolicy:
		return true
	}
	return false
}
