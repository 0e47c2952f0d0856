// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestRules_Unknown: without a value of the cluster, the findings that depend on it are left
// out, and all others stay.
func TestRules_Unknown(t *testing.T) {
	table, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	aboutDomain := func(f policy.Finding) bool {
		return f.Code == policy.CodeFQDNTooLong || f.Code == admission.CodeOrdinalLimit && strings.Contains(f.Message, "FQDN")
	}
	aboutServers := func(f policy.Finding) bool {
		return f.Code == policy.CodeServerLimit || f.Code == policy.CodeForeignNameserver
	}
	left := 0
	for _, v := range table {
		if v.Node.ResolvConf != nil { // the host's nameservers count with an unknown cluster DNS, too
			continue
		}
		o, rules := object(t, v), v.Node.Rules(t)
		for _, u := range []admission.Unknown{{}, {ClusterDomain: true}, {ClusterDNS: true}, {ClusterDomain: true, ClusterDNS: true}} {
			want := slices.DeleteFunc(vectors.Check(t, rules, o), func(f policy.Finding) bool {
				leave := u.ClusterDomain && aboutDomain(f) || u.ClusterDNS && aboutServers(f)
				if leave {
					left++
				}
				return leave
			})
			if diff := cmp.Diff(want, vectors.Check(t, rules.WithUnknown(u), o), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %+v: (-want +got)\n%s", v.Name, u, diff)
			}
		}
	}
	if left < 20 {
		t.Errorf("only %d findings depend on the values", left)
	}
}
