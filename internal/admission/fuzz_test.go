// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// FuzzCheck: if the policy engine finds that a pod does not start, the rules report an error.
// Every finding has a field, a message and a hint.
func FuzzCheck(f *testing.F) {
	f.Add("Pod", "web", "", "", "", false, false, "ClusterFirst", "", "", "", "")
	f.Add("StatefulSet", "db", "db-0", "db", "", true, false, "ClusterFirst", "192.0.2.1 192.0.2.2 192.0.2.3", "a.b c.d", "ndots", "2")
	f.Add("Pod", strings.Repeat("n", 64), "", "s", "", true, false, "None", "", ".", "ndots:2", "")
	f.Add("Job", "j", "j-0", "S", strings.Repeat("a.", 40), true, true, "Custom", "fe80::1%eth0 127.0.0.1", "..", "attempts", "0")
	f.Add("CronJob", "c", strings.Repeat("-", 64), "", "x", false, false, "clusterFirstWithAutopath",
		"::1", strings.Repeat("a", 254), "", "\nx")
	f.Add("Pod", "web", "", "", "", false, false, "", "", "", "", "") // without the API's defaults
	f.Fuzz(func(t *testing.T, kind, name, hostname, subdomain, override string, asFQDN, hostNetwork bool,
		dns, servers, searches, option, value string) {
		o := admission.Object{Kind: kind, Name: name, Ordinal: kind == "StatefulSet" || kind == "Job", Pod: policy.Pod{
			Namespace: "shop", Name: name, Policy: policy.Policy(dns), HostNetwork: hostNetwork,
			Hostname: hostname, Subdomain: subdomain, SetHostnameAsFQDN: asFQDN,
		}}
		if override != "" {
			o.Pod.HostnameOverride = &override
		}
		if servers+searches+option+value != "" {
			o.Pod.Config = &policy.DNSConfig{Nameservers: strings.Fields(servers),
				Searches: strings.Fields(searches), Options: []policy.Option{{Name: option, Value: value}}}
		}
		checkObject(t, o)
	})
}

func checkObject(t *testing.T, o admission.Object) {
	node := policy.Node{ClusterDNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain: "cluster.local", ResolvConf: "/etc/resolv.conf"}
	rules := must.Get(admission.New(node, nil))(t)
	engine := must.Get(policy.New(node))(t)
	findings := vectors.Check(t, rules, o)
	for _, f := range findings {
		if f.Code == "" || f.Severity == "" || f.EnforcedBy == "" || f.Field == "" || f.Message == "" || f.Hint == "" || f.Reason != "" {
			t.Errorf("a missing field, or a reason: %+v", f)
		}
	}
	errors := slices.ContainsFunc(findings, policy.Finding.IsError)
	if d := engine.Decide(o.Pod, resolvconf.File{}); !d.Starts() && !errors {
		t.Errorf("the pod does not start: %q %+v; got %+v", d.Error, d.Findings, findings)
	}
	if v := admission.NewVerdict(o, findings); v.Denied != "" && !errors {
		t.Errorf("denied without an error: %+v", v)
	}
	if again := vectors.Check(t, rules, o); !reflect.DeepEqual(findings, again) {
		t.Errorf("the second check has %+v, the first %+v", again, findings)
	}
}
