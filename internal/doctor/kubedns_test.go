// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
)

// withKubeDNS returns the healthy cluster with kube-dns in place of CoreDNS.
func withKubeDNS(t testing.TB) dnsfaults.Objects {
	t.Helper()
	text, err := os.ReadFile("testdata/kube-dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := healthy(t)
	for key := range objects {
		if strings.Contains(key, "kube-system/coredns") && !strings.HasPrefix(key, "PodDisruptionBudget ") {
			delete(objects, key)
		}
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o dnsfaults.Object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		objects[o.Key()] = o
	}
	return objects
}

// withKubeDNSData returns this cluster with other data in the ConfigMap of kube-dns.
func withKubeDNSData(t testing.TB, data map[string]any) *Snapshot {
	t.Helper()
	objects := withKubeDNS(t)
	const key = "ConfigMap kube-system/kube-dns"
	if data == nil {
		delete(objects, key)
	} else {
		objects[key]["data"] = data
	}
	return snapshotOf(t, objects)
}

// TestRun_KubeDNS: a healthy cluster with kube-dns has no finding. The checks of a Corefile do not
// apply to it, nor those of its ConfigMap if it has none.
func TestRun_KubeDNS(t *testing.T) {
	tests := map[string]struct {
		data map[string]any
		own  int // checks of the ConfigMap
	}{
		"without a ConfigMap":     {nil, 0},
		"with an empty ConfigMap": {map[string]any{}, len(kubeDNSChecks())},
		"with an unrelated key":   {map[string]any{"note": "see the wiki"}, len(kubeDNSChecks())},
		"with federations":        {map[string]any{"federations": "a=b.example"}, len(kubeDNSChecks())},
		"with the ConfigMap of testdata": {withKubeDNS(t)["ConfigMap kube-system/kube-dns"]["data"].(map[string]any),
			len(kubeDNSChecks())},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withKubeDNSData(t, tt.data)
			permit(s)
			r := Run(t.Context(), s)
			want := len(Checks()) - len(corefileChecks()) - len(corefileHabits()) - len(kubeDNSChecks()) + tt.own
			if len(r.Findings)+len(r.NotChecked) > 0 || r.Passed != want {
				t.Errorf("%d passed, want %d; %+v, not checked %+v", r.Passed, want, r.Findings, r.NotChecked)
			}
		})
	}
}

func TestRun_KubeDNSFaults(t *testing.T) {
	tests := []struct {
		name, key, value string
		finds            []string
		evidence         string
	}{
		{"not JSON", "stubDomains", "corp.example: [192.0.2.54]", []string{"kube-dns-config"}, "data.stubDomains: invalid character"},
		{"a trailing comma", "stubDomains", `{"corp.example": ["192.0.2.54"],}`, []string{"kube-dns-config"}, "data.stubDomains: invalid"},
		{"a server and not a list", "stubDomains", `{"corp.example": "192.0.2.54"}`, []string{"kube-dns-config"},
			`want a JSON object of lists, such as {"corp.example": ["192.0.2.53"]}`},
		{"an object and not a list", "upstreamNameservers", `{"a": "192.0.2.54"}`, []string{"kube-dns-config"}, "want a JSON list"},
		{"a domain with a final dot", "stubDomains", `{"corp.example.": ["192.0.2.54"]}`, []string{"kube-dns-config"},
			`data.stubDomains: "corp.example." is not a domain in lower case`},
		{"a domain with upper case", "stubDomains", `{"Corp.example": ["192.0.2.54"]}`, []string{"kube-dns-config"}, `"Corp.example"`},
		{"no servers", "stubDomains", `{"corp.example": []}`, []string{"kube-dns-config"}, `"corp.example" has no servers`},
		{"a bad server", "stubDomains", `{"corp.example": ["192.0.2.54:dns", "192.0.2.54#53"]}`, []string{"kube-dns-config"},
			`"corp.example": "192.0.2.54#53" is not an IP address`},
		{"a name as upstream", "upstreamNameservers", `["dns.example"]`, []string{"kube-dns-config"},
			`data.upstreamNameservers: "dns.example" is not an IP address`},
		{"four upstreams", "upstreamNameservers", `["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]`, []string{"kube-dns-config"},
			"4 servers, the limit is 3"},
		{"a misspelt key", "stubdomains", `{}`, []string{"kube-dns-config"}, "data.stubdomains: unknown key: did you mean stubDomains?"},
		{"its own Service", "upstreamNameservers", `["10.96.0.10"]`, []string{"kube-dns-loop"}, "data.upstreamNameservers: 10.96.0.10"},
		{"a loopback address", "stubDomains", `{"corp.example": ["127.0.0.53:53"]}`, []string{"kube-dns-loop"},
			"data.stubDomains: corp.example: 127.0.0.53:53"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkFault(t, Run(t.Context(), withKubeDNSData(t, map[string]any{tt.key: tt.value})), tt.finds, tt.evidence)
		})
	}
}

// TestRun_KubeDNSContainers: the commands name the container of three, and the ConfigMap that
// there is.
func TestRun_KubeDNSContainers(t *testing.T) {
	s := withKubeDNSData(t, map[string]any{})
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == "kube-dns-1" })
	s.Pods[i].Status.ContainerStatuses[1].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=dnsmasq"}}
	for i := range s.Probes {
		if s.Probes[i].Name == otherName {
			s.Probes[i].RCode, s.Probes[i].Answers = "SERVFAIL", nil
		}
	}
	want := map[string]string{
		"dns-crash-loop": "kubectl -n kube-system logs kube-dns-1 -c dnsmasq --previous",
		"probe-external": "kubectl -n kube-system get configmap kube-dns -o yaml; query the servers to which it forwards from a node",
	}
	r := Run(t.Context(), s)
	for code, next := range want {
		if !slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Code == code && f.Next == next }) {
			t.Errorf("no %s with %q: %+v", code, next, r.Findings)
		}
	}
}

// TestRun_KubeDNSUnread: without the ConfigMap its checks are not passed.
func TestRun_KubeDNSUnread(t *testing.T) {
	s := withKubeDNSData(t, nil)
	s.Unread[ConfigMaps] = "no permission"
	var unread []string
	for _, n := range Run(t.Context(), s).NotChecked {
		unread = append(unread, n.Checks...)
	}
	for _, c := range kubeDNSChecks() {
		if !slices.Contains(unread, c.Code) {
			t.Errorf("%s is not in %q", c.Code, unread)
		}
	}
}

// TestRun_KubeDNSBounded: a ConfigMap may have a mebibyte.
func TestRun_KubeDNSBounded(t *testing.T) {
	servers := strings.Repeat(`"x!",`, 200_000) + `"x!"`
	r := Run(t.Context(), withKubeDNSData(t,
		map[string]any{"upstreamNameservers": "[" + servers + "]", "stubDomains": strings.Repeat("x", 1<<19)}))
	if len(r.Findings) != 1 || len(r.Findings[0].Message) > 2000 || len(strings.Join(r.Findings[0].Evidence, "")) > 5000 {
		t.Errorf("%.2000v", r.Findings)
	}
}
