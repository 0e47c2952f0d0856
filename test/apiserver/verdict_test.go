// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
)

// validation is a policy against a ConfigMap with a name.
const validation = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'NAME'", message: "ACTION NAME"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [ACTION]}
`

// TestAPIServer_DryRun tests the verdict, and that Enforce waits for the policies.
func TestAPIServer_DryRun(t *testing.T) {
	k := apiserver.Start(t).Kubectl(t)
	named := func(name string) string { return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}}" }
	policy := func(name, action string) string {
		return strings.NewReplacer("NAME", name, "ACTION", action).Replace(validation)
	}
	k.Enforce(t, policy("denied", "Deny"), named("denied"), func(v apiserver.Verdict) bool { return v.Refused != "" })
	k.Enforce(t, policy("warned-of", "Warn"), named("warned-of"), func(v apiserver.Verdict) bool { return len(v.Warnings) > 0 })
	for name, want := range map[string]struct {
		refused  string
		warnings []string
	}{
		"fine":   {},
		"denied": {refused: "ValidatingAdmissionPolicy 'denied' with binding 'denied' denied request: Deny denied"},
		"warned-of": {warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'warned-of' " +
			"with binding 'warned-of': Warn warned-of"}},
	} {
		v := k.DryRun(t.Context(), named(name))
		if (v.Refused != "") != (want.refused != "") || !strings.Contains(v.Refused, want.refused) {
			t.Errorf("%s: refused: %q, want %q", name, v.Refused, want.refused)
		}
		if diff := cmp.Diff(want.warnings, v.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got)\n%s", name, diff)
		}
	}
}
