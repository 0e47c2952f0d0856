// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestRun_HealthyVariants: other healthy clusters have no finding, and those that installers and providers create none above
// info.
func TestRun_HealthyVariants(t *testing.T) {
	variants, err1 := dnsfaults.Variants()
	installers, err2 := dnsfaults.Installers()
	must.Succeed(t, errors.Join(err1, err2))
	for i, f := range append(variants, installers...) {
		t.Run(f.Name, func(t *testing.T) {
			objects := must.Get(f.Apply(healthy(t)))(t)
			for _, found := range Run(t.Context(), snapshotOf(t, objects)).Findings {
				if i < len(variants) || found.Severity != string(policy.SeverityInfo) {
					t.Errorf("%+v", found)
				}
			}
		})
	}
}

// TestRun_NextNamespace: the next command is about the namespace of the cluster DNS, which is not always kube-system.
func TestRun_NextNamespace(t *testing.T) {
	installers := must.Get(dnsfaults.Installers())(t)
	i := slices.IndexFunc(installers, func(f dnsfaults.Fault) bool { return f.Name == "OpenShift" })
	objects := must.Get(installers[i].Apply(healthy(t)))(t)
	s := snapshotOf(t, objects)
	s.Probes = append(s.Probes, v1alpha1.DoctorProbe{Server: "172.30.0.10:53", Role: RoleService, Protocol: UDP, Name: apiName, Type: "A",
		Error: "timeout"})
	found := Run(t.Context(), s).Findings
	if len(found) != 1 || found[0].Code != "probe-no-reply" || !strings.HasPrefix(found[0].Next, "kubectl -n openshift-dns get pods") {
		t.Errorf("%+v", found)
	}
}

// TestRun_ManyPolicies: one NetworkPolicy that permits egress is enough, however many others permit none.
func TestRun_ManyPolicies(t *testing.T) {
	for last, want := range map[string][]string{"egress: [{}]": nil, "egress: []": {"network-policy"}} {
		s := snapshotOf(t, healthy(t))
		for i := range maxLines + 2 {
			rule := "egress: []"
			if i == maxLines+1 {
				rule = last
			}
			var o dnsfaults.Object
			text := fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: n%02d, namespace: kube-system}, "+
				"spec: {podSelector: {matchLabels: {k8s-app: kube-dns}}, policyTypes: [Egress], %s}}", i, rule)
			must.Succeed(t, yaml.Unmarshal([]byte(text), &o))
			addObject(t, s, o)
		}
		if got := codes(Run(t.Context(), s)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", last, got, want)
		}
	}
}
