// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestWebhook_UnknownDomain: a pod is denied for its FQDN only if the cluster domain is
// configured, by a flag, a field or the kubelet's file.
func TestWebhook_UnknownDomain(t *testing.T) {
	kubelet := filepath.Join(t.TempDir(), "kubelet.yaml")
	must.Succeed(t, os.WriteFile(kubelet,
		[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDomain: cluster.local\n"),
		0o600))
	pod := admission.Object{Kind: admission.KindPod, Name: "checkout-worker-0", Pod: policy.Pod{
		Namespace: "payments-production", Name: "checkout-worker-0", Policy: policy.ClusterFirst,
		Subdomain: "checkout-workers", SetHostnameAsFQDN: true,
	}}
	for _, tt := range []struct {
		file   string
		denied bool
	}{
		{"tls: {certFile: c, keyFile: k}\n", false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDNS: [10.96.0.10]}\n", false},
		{"tls: {certFile: c, keyFile: k}\nnode: {clusterDomain: cluster.local}\n", true},
		{"tls: {certFile: c, keyFile: k}\nnode: {kubeletConfig: " + kubelet + "}\n", true},
	} {
		c := must.Get(Kind().FromFile(newFile(t, tt.file)).Load())(t)
		if findings, err := c.Rules.Check(t.Context(), pod); err != nil || (admission.NewVerdict(pod, findings).Denied != "") != tt.denied {
			t.Errorf("%s: %+v, %v", tt.file, findings, err)
		}
	}
}

func newFile(t *testing.T, fields string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhook.yaml")
	text := "apiVersion: " + v1alpha1.GroupVersion + "\nkind: " + v1alpha1.KindWebhook + "\n" + fields
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestWebhook_HostFile: the nodes' resolv.conf is watched, and must exist.
func TestWebhook_HostFile(t *testing.T) {
	host := filepath.Join(t.TempDir(), "resolv.conf")
	source := Kind().FromFile(newFile(t, "tls: {certFile: c, keyFile: k}\nnode: {resolvConf: "+host+"}\n"))
	if _, err := source.Load(); err == nil {
		t.Error("a missing resolv.conf is accepted")
	}
	must.Succeed(t, os.WriteFile(host, []byte("nameserver 192.0.2.53\n"), 0o600))
	source.Changed() // the first call sees the change, the second that it has settled
	if !source.Changed() {
		t.Error("the resolv.conf is not watched")
	}
	if _, err := source.Load(); err != nil {
		t.Error(err)
	}
}

// TestWarnings_Limits covers both sides of the limit.
func TestWarnings_Limits(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\x00":    "a?b?",
		"é"[:1] + "a": "?a", // half a character
		"a long sentence " + strings.Repeat("é", 300): "a long sentence " + strings.Repeat("é", 300),
	} {
		if got := warnings([]string{in}, maxReply); !slices.Equal(got, []string{want}) {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}

	const size = 100
	line := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
	var all []string
	for i := range maxWarnings / size {
		all = append(all, line(i))
	}
	rest := maxWarnings % size
	if diff := cmp.Diff(append(all, line(0)[:rest]), warnings(append(all, line(0)[:rest]), maxReply)); diff != "" {
		t.Errorf("4096 characters (-want +got):\n%s", diff)
	}
	want := append(slices.Clone(all), "warnings left out: 1; dnsconfigurer validate prints all")
	if diff := cmp.Diff(want, warnings(append(all, line(0)[:rest+1]), maxReply)); diff != "" {
		t.Errorf("4097 characters (-want +got):\n%s", diff)
	}
}
