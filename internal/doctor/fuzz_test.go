// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// FuzzRun_Corefile: the checks read any Corefile, and report it if it has a syntax error.
func FuzzRun_Corefile(f *testing.F) {
	f.Add(".:53 {\n  errors\n  health\n  kubernetes cluster.local in-addr.arpa {\n    pods verified\n  }\n  " +
		"forward . /etc/resolv.conf 192.0.2.1:53 tls://[::1]%a {\n    max_concurrent 1000\n  }\n  cache 30\n  loop\n}\n")
	f.Add("10.0.0.0/8 example.:53 {\n  hosts {\n  }\n  template\n  rewrite name exact a b\n  forward\n  kubernetes\n  import x\n}\n")
	s := snapshotOf(f, healthy(f))
	f.Fuzz(func(t *testing.T, text string) {
		for i := range s.ConfigMaps {
			if s.ConfigMaps[i].Name == "coredns" {
				s.ConfigMaps[i].Data = map[string]string{"Corefile": text}
			}
		}
		findings := Run(t.Context(), s).Findings
		found := slices.ContainsFunc(findings, func(f v1alpha1.DoctorFinding) bool { return f.Code == "corefile-syntax" })
		if _, problems := Parse(text); found != (len(problems) > 0) {
			t.Errorf("%q: problems %v, findings %+v", text, problems, findings)
		}
	})
}
