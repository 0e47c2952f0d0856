// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// corefileTest is an element of testdata/corefiles.json: a change of kubeadm's Corefile, and whether CoreDNS v1.15.0
// accepts it, as caddy.ValidateAndExecuteDirectives reports.
type corefileTest struct {
	Line    int      `json:"line"`   // where lines are removed
	Remove  int      `json:"remove"` // how many
	Add     []string `json:"add"`    // lines
	Refused bool     `json:"refused"`
}

// TestRefused: what CoreDNS refuses is an error, and what it accepts is not.
func TestRefused(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/corefiles.json"))(t)
	var tests []corefileTest
	must.Succeed(t, json.Unmarshal(text, &tests))
	bad, missed := 0, 0
	s := snapshotOf(t, healthy(t))
	i := slices.IndexFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == "coredns" })
	base := strings.Split(strings.TrimSpace(s.ConfigMaps[i].Data["Corefile"])+"\n", "\n")
	for _, tt := range tests {
		text := strings.Join(slices.Replace(slices.Clone(base), tt.Line-1, tt.Line-1+tt.Remove, tt.Add...), "\n")
		s.ConfigMaps[i].Data = map[string]string{"Corefile": text}
		found := slices.Contains(codes(Run(t.Context(), s)), "corefile-refused")
		if found && !tt.Refused {
			t.Errorf("CoreDNS accepts\n%s", text)
		}
		if tt.Refused {
			bad++
			if !found {
				missed++
				t.Logf("CoreDNS refuses\n%s", text)
			}
		}
	}
	if bad < 130 || missed > 3 {
		t.Errorf("%d of %d are not found", missed, bad)
	}
	started := metav1.Now()
	s.ConfigMaps[i].Data, s.ConfigMaps[i].CreationTimestamp = map[string]string{"Corefile": ". {\n  erorrs\n}\n"}, metav1.Unix(1, 0)
	for i := range s.Pods {
		s.Pods[i].Status.StartTime = &started
	}
	if got := codes(Run(t.Context(), s)); slices.Contains(got, "corefile-refused") {
		t.Errorf("a ready pod started after the last change: %q", got)
	}
}

// FuzzCorefile: no text panics, and a problem is a finding.
func FuzzCorefile(f *testing.F) {
	f.Add(".:53 {\n  errors\n  kubernetes cluster.local in-addr.arpa {\n    pods verified\n  }\n  " +
		"forward . /etc/resolv.conf 192.0.2.1:53 tls://[::1]%a {\n    max_concurrent 1000\n  }\n  cache 30\n  loop\n}\n")
	f.Add("10.0.0.0/8 example.:53 {\n  hosts {\n  }\n  template\n  rewrite name exact a b\n  forward\n  kubernetes\n  import x\n}\n")
	f.Add("a,\nb {\n\"\\\"\" {\n}}\n{ } # }")
	s := snapshotOf(f, healthy(f))
	i := slices.IndexFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == "coredns" })
	f.Fuzz(func(t *testing.T, text string) {
		_, problems := corefile.Parse(text)
		s.ConfigMaps[i].Data = map[string]string{"Corefile": text}
		found := slices.ContainsFunc(Run(t.Context(), s).Findings, func(f v1alpha1.DoctorFinding) bool {
			return f.Code == "corefile-refused"
		})
		if len(problems) > 0 && !found {
			t.Errorf("%q: problems %v", text, problems)
		}
	})
}
